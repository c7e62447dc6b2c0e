// `holdfast/sqlite`: leases in an SQLite file, and fences for an application's own SQLite database.
export type { AdmitOptions } from '../../fence/fence.js'
export type { SqliteTransactionDatabase } from './application.js'
export type { SqliteDatabase, SqliteDatabaseClass, SqliteStatement, SqliteValue } from './client.js'
export {
  type SqliteFence,
  type SqliteFenceDatabase,
  type SqliteFenceOptions,
  type SqliteFencePredicate,
  type SqliteFenceStatement,
  sqliteFence,
} from './fence.js'
export { type SqliteRecordsOptions, sqliteRecords, sqliteRecordsCapabilities } from './records.js'
export { type SqliteStore, type SqliteStoreOptions, sqliteCapabilities, sqliteStore } from './store.js'
export {
  type SqliteTransactionRecords,
  type SqliteTransactionRecordsOptions,
  sqliteTransactionRecords,
} from './transaction-records.js'
