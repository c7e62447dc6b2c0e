// What the SQLite fence promises (G7, C54), as cases that run on every driver.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { InvalidArgumentError, StaleTokenError } from '../../src/lease/errors.js'
import type { Grant } from '../../src/store/contract.js'
import { type SqliteDatabase, type SqliteFenceDatabase, sqliteFence } from '../../src/stores/sqlite/index.js'
import { type Bench, type Case, grantOf } from './harness.js'

const stale = (admitted: number) => (error: unknown) => {
  assert.ok(error instanceof StaleTokenError, String(error))
  assert.equal(error.admitted, admitted)
  return true
}

/** The application's database, in WAL mode, with a register that fenced writes go to. */
function shop({ raw, folder }: Bench): SqliteDatabase {
  const db = raw(join(folder, 'shop.db'))
  db.exec(
    'PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000; CREATE TABLE IF NOT EXISTS invoice (id INTEGER PRIMARY KEY, text TEXT, fence INTEGER)',
  )
  return db
}

function inTransaction<Value>(db: SqliteDatabase, run: () => Value): Value {
  db.exec('BEGIN IMMEDIATE')
  try {
    const value = run()
    db.exec('COMMIT')
    return value
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  }
}

/** Both shapes of the check, which must agree. */
const shapes: readonly { name: string; admit(db: SqliteDatabase, grant: Grant, resource?: string): void }[] = [
  {
    name: 'admit',
    admit: (db, grant, resource) => sqliteFence().admit(db, grant, resource === undefined ? {} : { resource }),
  },
  {
    name: 'statement and verify',
    admit(db, grant, resource) {
      const fence = sqliteFence()
      fence.install(db)
      const { sql, params } = fence.statement(grant, resource === undefined ? {} : { resource })
      fence.verify(db.prepare(sql).all(...params))
    },
  },
]

const rule: Case[] = shapes.flatMap(({ name, admit }): Case[] => [
  {
    name: `C54 ${name}: a smaller token is refused, compared as a number`,
    run(bench) {
      const db = shop(bench)
      const MAX = Number.MAX_SAFE_INTEGER
      for (const [less, more] of [
        [9, 10],
        [99, 100],
        [MAX - 1, MAX],
      ] as const) {
        const key = `key of ${more}`
        inTransaction(db, () => admit(db, grantOf(key, 'a', less)))
        inTransaction(db, () => admit(db, grantOf(key, 'b', more)))
        assert.throws(() => inTransaction(db, () => admit(db, grantOf(key, 'a', less))), stale(more))
        inTransaction(db, () => admit(db, grantOf(key, 'b', more)))
      }
    },
  },
  {
    name: `C54 ${name}: token 7 again of the same claim is admitted, of another claim it is not`,
    run(bench) {
      const db = shop(bench)
      inTransaction(db, () => admit(db, grantOf('k', 'a', 7)))
      inTransaction(db, () => admit(db, grantOf('k', 'a', 7)))
      assert.throws(() => inTransaction(db, () => admit(db, grantOf('k', 'b', 7))), stale(7))
      inTransaction(db, () => admit(db, grantOf('k', 'a', 7)))
    },
  },
  {
    name: `C54 ${name}: no token, and what only looks like one, is refused before any command`,
    run(bench) {
      const db = shop(bench)
      for (const token of [
        undefined,
        null,
        Number.NaN,
        '7',
        7n,
        0,
        -1,
        7.5,
        Number.POSITIVE_INFINITY,
        Number.MAX_SAFE_INTEGER + 1,
      ]) {
        const grant = { ...grantOf('k', 'a'), token } as unknown as Grant
        assert.throws(
          () => inTransaction(db, () => admit(db, grant)),
          (error) => error instanceof InvalidArgumentError && error.option === 'grant.token',
        )
      }
      for (const grant of [
        undefined,
        null,
        7,
        {},
        { key: 'k', token: 7 },
        { ...grantOf('k', 'a'), claim: '' },
        { ...grantOf('', 'a') },
      ]) {
        assert.throws(() => inTransaction(db, () => admit(db, grant as Grant)), InvalidArgumentError)
      }
      assert.throws(() => inTransaction(db, () => admit(db, grantOf('k', 'a'), '')), /resource must not be empty/)
    },
  },
  {
    name: `G7 ${name}: resources are told apart exactly, and a refusal leaves the fence as it was`,
    run(bench) {
      const db = shop(bench)
      inTransaction(db, () => admit(db, grantOf('k', 'a', 5), 'Invoice'))
      inTransaction(db, () => admit(db, grantOf('k', 'a', 3), 'invoice'))
      assert.throws(() => inTransaction(db, () => admit(db, grantOf('k', 'b', 4), 'Invoice')), stale(5))
      inTransaction(db, () => admit(db, grantOf('k', 'a', 5), 'Invoice'))
    },
  },
  {
    name: `C54 ${name}: 1000 rounds of an old holder against a new one, on two connections`,
    run(bench) {
      const [older, newer] = [shop(bench), shop(bench)]
      older.exec("INSERT INTO invoice (id, text) VALUES (1, '')")
      assert.equal(
        lostUpdates(older, newer, (db, grant, write) =>
          inTransaction(db, () => {
            admit(db, grant)
            write()
          }),
        ),
        0,
      )
    },
  },
])

/** Old and new holder write in turns, in every order; counts how often the old one's text stood last after the new one wrote. */
function lostUpdates(
  older: SqliteDatabase,
  newer: SqliteDatabase,
  fenced: (db: SqliteDatabase, grant: Grant, write: () => void) => void,
): number {
  let lost = 0
  for (let round = 1; round <= 1_000; round++) {
    const grants = { old: grantOf('k', `old ${round}`, 2 * round), new: grantOf('k', `new ${round}`, 2 * round + 1) }
    const write = (db: SqliteDatabase, who: 'old' | 'new') => {
      try {
        fenced(db, grants[who], () => db.prepare('UPDATE invoice SET text = ? WHERE id = 1').run(who))
      } catch (error) {
        assert.ok(error instanceof StaleTokenError && who === 'old', String(error))
      }
    }
    if (round % 2 === 0) write(older, 'old')
    write(newer, 'new')
    write(older, 'old')
    const { text } = newer.prepare('SELECT text FROM invoice WHERE id = 1').get() as { text: string }
    if (text !== 'new') lost++
  }
  return lost
}

const setting: Case[] = [
  {
    name: 'C54 a fence that is read, compared and written later loses updates: the check above can fail',
    run(bench) {
      const [older, newer] = [shop(bench), shop(bench)]
      older.exec("INSERT INTO invoice (id, text, fence) VALUES (1, '', 0)")
      let late: (() => void) | undefined
      const naive = (db: SqliteDatabase, { token }: Grant, write: () => void) => {
        const { fence } = db.prepare('SELECT fence FROM invoice WHERE id = 1').get() as { fence: number }
        if (fence > token) return
        const act = () => {
          db.prepare('UPDATE invoice SET fence = max(fence, ?) WHERE id = 1').run(token)
          write()
        }
        if (db === older && late === undefined)
          late = act // paused between check and write
        else act()
        if (db === newer) {
          late?.()
          late = undefined
        }
      }
      assert.ok(lostUpdates(older, newer, naive) > 400)
    },
  },
  {
    name: 'G7 a check outside a transaction protects nothing, and throws; so does a closed connection',
    run(bench) {
      const db = shop(bench)
      const fence = sqliteFence()
      assert.throws(() => fence.admit(db, grantOf('k', 'a')), /db must be inside a transaction/)
      inTransaction(db, () => fence.admit(db, grantOf('k', 'a')))
      assert.throws(() => fence.admit(db, grantOf('k', 'a')), /db must be inside a transaction/)
      db.close()
      assert.throws(() => fence.admit(db, grantOf('k', 'a')), /db must be an open connection/)
    },
  },
  {
    name: 'G7 a driver that cannot say whether it is in a transaction is found out',
    run(bench) {
      const db = shop(bench)
      const silent: SqliteFenceDatabase = { prepare: (sql) => db.prepare(sql), exec: (sql) => db.exec(sql) }
      const fence = sqliteFence()
      assert.throws(() => fence.admit(silent, grantOf('k', 'a')), /db must be inside a transaction/)
      inTransaction(db, () => fence.admit(silent, grantOf('k', 'a')))
    },
  },
  {
    name: 'G7 what is rolled back was not admitted, nor was the table made; both come with the next transaction',
    run(bench) {
      const db = shop(bench)
      const fence = sqliteFence()
      for (let round = 0; round < 2; round++) {
        assert.throws(
          () =>
            inTransaction(db, () => {
              fence.admit(db, grantOf('k', 'b', 9))
              throw new Error('the work failed')
            }),
          /the work failed/,
        )
      }
      inTransaction(db, () => fence.admit(db, grantOf('k', 'a', 8)))
      assert.throws(() => inTransaction(db, () => fence.admit(db, grantOf('k', 'a', 7))), stale(8))
    },
  },
  {
    name: 'a table of another name, with quotes in it; names that cannot be are refused',
    run(bench) {
      const db = shop(bench)
      const fence = sqliteFence({ table: 'my "own" fence; DROP TABLE invoice' })
      fence.install(db)
      inTransaction(db, () => fence.admit(db, grantOf('k', 'a', 8)))
      assert.throws(() => inTransaction(db, () => fence.admit(db, grantOf('k', 'a', 7))), stale(8))
      db.prepare('SELECT * FROM invoice').all()
      for (const table of ['', 'sqlite_fence', 'a\0b', 7 as never])
        assert.throws(() => sqliteFence({ table }), /table must be a name/)
      for (const column of ['', 7 as never])
        assert.throws(() => fence.predicate(grantOf('k', 'a'), { column }), /column must be a name/)
    },
  },
  {
    name: 'verify refuses rows that are not those of its statement, and knows a row as a list',
    run() {
      const fence = sqliteFence()
      for (const rows of [
        undefined,
        [],
        [{}],
        [{ ok: 1 }],
        [[]],
        [1],
        [
          { resource: 'k', ok: 1 },
          { resource: 'k', ok: 1 },
        ],
      ]) {
        assert.throws(() => fence.verify(rows as never), /rows must be the one row that fence.statement returned/)
      }
      fence.verify([['k', 7, 7, 1]])
      assert.throws(() => fence.verify([['k', 8n, 7n, 0n]]), stale(8))
    },
  },
]

const columns: Case[] = [
  {
    name: 'C54 the predicate writes, refuses what is stale, and tells it from a row that is not there or did not match',
    run(bench) {
      const db = shop(bench)
      db.exec("INSERT INTO invoice (id, text) VALUES (1, 'draft')")
      db.exec("CREATE TABLE note (id INTEGER PRIMARY KEY, fence TEXT); INSERT INTO note VALUES (1, '9')")
      const update = (token: number, id: number, table = 'invoice', more = '') => {
        const { set, where, value, verify } = sqliteFence().predicate(grantOf('k', 'a', token))
        const { changes } = db
          .prepare(`UPDATE ${table} SET ${set} WHERE id = ? AND ${where} ${more}`)
          .run(value, id, value)
        return verify(
          changes,
          () => (db.prepare(`SELECT fence FROM ${table} WHERE id = ?`).get(id) as { fence: number } | undefined)?.fence,
        )
      }
      assert.equal(update(9, 1), 'written')
      assert.equal(update(9, 1), 'written')
      assert.equal(update(10, 1), 'written')
      assert.throws(() => update(9, 1), stale(10))
      assert.equal(update(9, 2), 'no such row')
      assert.equal(update(10, 1, 'invoice', "AND text = 'paid'"), 'not matched')
      assert.equal(update(10, 1, 'note'), 'written') // a column of text: '9' < '10' as numbers
      assert.throws(() => update(9, 1, 'note'), stale(10))
    },
  },
  {
    name: 'C54 the trigger refuses whatever lowers the column, and nothing else',
    run(bench) {
      const db = shop(bench)
      const fence = sqliteFence()
      db.exec(fence.trigger({ table: 'invoice' }))
      db.exec(fence.trigger({ table: 'invoice' })) // again is harmless
      db.exec("INSERT INTO invoice (id, text, fence) VALUES (1, 'draft', NULL), (2, 'draft', 10)")
      db.exec('UPDATE invoice SET fence = 9 WHERE id = 1')
      db.exec('UPDATE invoice SET fence = 10 WHERE id = 1')
      for (const lower of ['9', 'NULL', '-1']) {
        assert.throws(() => db.exec(`UPDATE invoice SET fence = ${lower} WHERE id = 1`), /stale token/)
      }
      db.exec("UPDATE invoice SET text = 'sent', fence = 10 WHERE id = 2")
      db.exec("UPDATE invoice SET text = 'paid' WHERE id = 2")
    },
  },
]

export const fenceCases: readonly Case[] = [...rule, ...setting, ...columns]
