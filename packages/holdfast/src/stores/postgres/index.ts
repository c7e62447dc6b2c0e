// `holdfast/postgres`: leases and records of `once` in Postgres, and fences for an application's own tables there.

export type { AdmitOptions } from '../../fence/fence.js'
export type { PostgresTransaction } from './application.js'
export type { PostgresClient } from './client.js'
export {
  type PostgresFence,
  type PostgresFenceOptions,
  type PostgresFencePredicate,
  type PostgresFenceStatement,
  postgresFence,
} from './fence.js'
export type { PostgresNames } from './names.js'
export type { PgConnection, PgPool } from './pg.js'
export type { PostgresJs } from './postgres-js.js'
export {
  type PostgresRecords,
  type PostgresRecordsOptions,
  postgresRecords,
  postgresRecordsCapabilities,
} from './records.js'
export { type PostgresRecordsNames, postgresRecordsSchema } from './records-sql.js'
export { postgresSchema } from './schema.js'
export { type PostgresStore, type PostgresStoreOptions, postgresCapabilities, postgresStore } from './store.js'
