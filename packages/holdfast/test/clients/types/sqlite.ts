// Compiled, not run: the types of the real drivers fit what the store and the fence ask for.

import { DatabaseSync } from 'node:sqlite'
import BetterSqlite3 from 'better-sqlite3'
import Libsql from 'libsql'
import { sqliteFence, sqliteStore } from '../../../src/stores/sqlite/index.js'

const path = 'leases.db'
sqliteStore({ path, Database: BetterSqlite3 })
sqliteStore({ path, Database: Libsql })
sqliteStore({ path, Database: DatabaseSync })

const grant = { key: 'k', token: 1, claim: 'c', holder: 'h' }
sqliteFence().admit(new BetterSqlite3(path), grant)
sqliteFence().admit(new Libsql(path), grant)
sqliteFence().admit(new DatabaseSync(path), grant)

// @ts-expect-error an instance is not the class
sqliteStore({ path, Database: new Libsql(path) })
// @ts-expect-error a grant has a token
sqliteFence().admit(new Libsql(path), { key: 'k', claim: 'c', holder: 'h' })
// @ts-expect-error a token is a number
sqliteFence().admit(new Libsql(path), { ...grant, token: '1' })
