// `holdfast/mysql`: leases in MySQL or MariaDB, and fences for an application's own tables there.
export type { AdmitOptions } from '../../fence/fence.js'
export type { MysqlConnection, MysqlPool, MysqlStatement } from './client.js'
export {
  type MysqlFence,
  type MysqlFenceConnection,
  type MysqlFenceOptions,
  type MysqlFencePredicate,
  type MysqlFenceStatement,
  mysqlFence,
} from './fence.js'
export type { MysqlNames } from './names.js'
export {
  type MysqlRecords,
  type MysqlRecordsOptions,
  type MysqlTransaction,
  mysqlRecords,
  mysqlRecordsCapabilities,
} from './records.js'
export { type MysqlRecordsNames, mysqlRecordsSchema } from './records-sql.js'
export { mysqlSchema } from './schema.js'
export { type MysqlStore, type MysqlStoreOptions, mysqlCapabilities, mysqlStore } from './store.js'
