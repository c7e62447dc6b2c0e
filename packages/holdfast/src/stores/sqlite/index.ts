// `holdfast/sqlite`: leases in an SQLite file, and fences for an application's own SQLite database.
export type { SqliteDatabase, SqliteDatabaseClass, SqliteStatement, SqliteValue } from './client.js'
export { type SqliteStore, type SqliteStoreOptions, sqliteCapabilities, sqliteStore } from './store.js'
