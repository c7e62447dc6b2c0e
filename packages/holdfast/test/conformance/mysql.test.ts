// The whole suite on a MariaDB server, on its real clock. Cases have keys of their own, so they wait side by side; each has tables for
// itself while it runs, since pruning is for all keys of a store.
import type { Pool } from 'mysql2/promise'
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { mysqlStore } from '../../src/stores/mysql/index.js'
import { runConformance } from '../../src/testing/index.js'
import { MysqlServer, pass } from '../mysql/servers.js'

const SIDE_BY_SIDE = 20
vi.setConfig({ maxConcurrency: SIDE_BY_SIDE })

describe('mysql', () => {
  const tables = Array.from({ length: SIDE_BY_SIDE }, (_, n) => `case_${n}`)
  let server: MysqlServer
  let pool: Pool
  beforeAll(async () => {
    server = await MysqlServer.start({ args: ['--innodb-flush-log-at-trx-commit=2'] })
    pool = server.pool()
    for (const table of tables) await mysqlStore(pool, { table }).install()
  })
  afterAll(async () => {
    await pool?.end()
    await server?.stop()
  })
  runConformance({
    describe,
    it: it.concurrent,
    name: 'MariaDB, mysql2',
    create() {
      const table = tables.pop()
      if (table === undefined) throw new Error('more cases side by side than tables')
      const store = mysqlStore(pool, { table })
      return {
        store,
        open: () => mysqlStore(pool, { table }),
        passMs: pass,
        ttlMs: 1_500,
        prune: () => store.prune({ olderThanMs: 0 }),
        close: () => tables.push(table),
      }
    },
    complete: true,
  })
})
