// Opening the file: what is refused and how it is said, and who makes it when several come at once.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { InvalidArgumentError, StoreError } from '../../src/lease/errors.js'
import { type SqliteDatabase, type SqliteStore, sqliteStore } from '../../src/stores/sqlite/index.js'
import { SCHEMA } from '../../src/stores/sqlite/schema.js'
import { type Case, request } from './harness.js'

const none = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof StoreError, String(error))
  assert.equal(error.outcome, 'none')
  assert.match(error.message, pattern)
  return true
}

/** The schema as text, settings included. */
function schemaOf(db: SqliteDatabase): string {
  const tables = db.prepare('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid').all() as {
    sql: string
  }[]
  const pragma = (name: string) => Object.values(db.prepare(`PRAGMA ${name}`).get() as object)[0]
  const settings = ['page_size', 'journal_mode', 'application_id', 'user_version'].map(
    (name) => `PRAGMA ${name} = ${pragma(name)};\n`,
  )
  return `${settings.join('')}${tables.map(({ sql }) => `${sql};\n`).join('')}`
}

export const openingCases: Case[] = [
  {
    name: 'refuses what is not the class of a driver, and says which are',
    run({ path, Database, raw }) {
      class Later {
        prepare() {
          return Promise.resolve({})
        }
        exec() {}
        close() {}
      }
      for (const wrong of [undefined, null, 'libsql', {}, { default: Database }, raw(), class {}, Later]) {
        assert.throws(
          () => sqliteStore({ path, Database: wrong as never }),
          /Database must be the class of .*better-sqlite3 or libsql/,
        )
      }
    },
  },
  {
    name: 'refuses a path that is no file, a directory that is missing, and options that cannot be right',
    run({ Database, folder, path }) {
      for (const wrong of [undefined, '', 7, ':memory:', 'file::memory:?cache=shared', 'libsql://example.org']) {
        assert.throws(() => sqliteStore({ path: wrong as never, Database }), /path must be the path of a file/)
      }
      assert.throws(
        () => sqliteStore({ path: join(folder, 'no/leases.db'), Database }),
        /directory that exists: make it first, with mkdirSync/,
      )
      assert.throws(
        () => sqliteStore({ path, Database, synchronous: 'off' as never }),
        /synchronous must be 'normal' or 'full'; got "off"/,
      )
      for (const wrong of [Number.NaN, -1, '5' as never]) {
        assert.throws(() => sqliteStore({ path, Database, retentionMs: wrong }), /retentionMs must be a number of ms/)
        assert.throws(() => sqliteStore({ path, Database, endedRetentionMs: wrong }), /endedRetentionMs must be/)
      }
      assert.equal(existsSync(path), false)
    },
  },
  {
    name: 'C44 refuses a file that is no database, one of another application, one of a newer version, and a directory',
    run({ open, raw, folder }) {
      const junk = join(folder, 'junk.db')
      writeFileSync(junk, 'this is a text of some length, and no database at all. '.repeat(40))
      assert.throws(
        () => open({ path: junk }),
        none(/junk\.db is not an SQLite database: give the leases a file of their own/),
      )

      const others = join(folder, 'shop.db')
      raw(others).exec('CREATE TABLE invoice (id INTEGER)')
      assert.throws(
        () => open({ path: others }),
        (error) => error instanceof InvalidArgumentError && /must be a file of its own/.test(error.message),
      )

      open({ path: join(folder, 'newer.db') })
      raw(join(folder, 'newer.db')).exec('PRAGMA user_version = 2')
      assert.throws(
        () => open({ path: join(folder, 'newer.db') }),
        none(/has format 2, newer than the 1 of this Holdfast: update Holdfast/),
      )

      mkdirSync(join(folder, 'folder.db'))
      assert.throws(() => open({ path: join(folder, 'folder.db') }), none(/folder\.db cannot be opened/))
    },
  },
  {
    name: 'the stored format is that of the golden file',
    async run({ open, raw, path }) {
      const golden = readFileSync(new URL('./golden/format-1.sql', import.meta.url), 'utf8')
      const [schema = '', rows = ''] = golden.split('-- rows\n')
      const store = open()
      assert.equal(schemaOf(raw()), schema)

      await store.close()
      rmSync(path)
      const db = raw()
      db.exec(schema)
      db.exec(rows)
      const read = open()
      const shown = await read.inspect('golden')
      assert.ok(shown !== null)
      const { heldMs, remainingMs, waiters, ...rest } = shown
      assert.deepEqual(rest, {
        key: 'golden',
        state: 'held',
        holder: 'host:1',
        claim: 'claim-2',
        token: 1_800_000_000_000_000,
        ttlMs: 30_000,
        changes: 2,
        revoked: false,
        meta: { job: 'report' },
      })
      assert.ok(heldMs >= 0 && remainingMs > 0)
      assert.deepEqual(
        waiters.map(({ holder }) => holder),
        ['host:2'],
      )
      for (const ended of ['claim-0', 'claim-1']) {
        const answer = await read.acquire(request('golden', ended))
        assert.ok(answer.is === 'held' && answer.because === 'ended')
      }
      assert.deepEqual(await read.renew([{ key: 'golden', claim: 'claim-2', ttlMs: 1_000 }]), [
        { is: 'renewed', ttlMs: 1_000 },
      ])
    },
  },
  {
    name: 'C44 two that make the file at the same time: whoever comes second finds it made',
    async run({ open, Database }) {
      let first: SqliteStore | undefined
      class Second extends Database {
        override exec(sql: string): unknown {
          if (sql === 'BEGIN IMMEDIATE') first ??= open()
          return super.exec(sql)
        }
      }
      const second = open({ Database: Second })
      assert.ok(first !== undefined)
      assert.equal((await first.acquire(request('k', 'a'))).is, 'granted')
      assert.equal((await second.acquire(request('k', 'b'))).is, 'held')
    },
  },
  {
    name: 'C44 a file that is locked while it is opened is opened when it is free',
    async run({ open, raw }) {
      const db = raw()
      db.exec('BEGIN EXCLUSIVE')
      const store = open()
      let answered = false
      const asked = store.acquire(request('k', 'a'))
      asked.then(() => {
        answered = true
      })
      await assert.rejects(
        store.acquire(request('k', 'a'), { timeoutMs: 30 }),
        none(/another process holds its write lock/),
      )
      await assert.rejects(store.inspect('k', { timeoutMs: 30 }), none(/another process has the lock/))
      assert.equal(answered, false)
      db.exec('ROLLBACK')
      assert.equal((await asked).is, 'granted')
    },
  },
  {
    name: 'C44 a file that somebody took out of its write-ahead log is put back',
    async run({ open, raw }) {
      const db = raw()
      db.exec(SCHEMA)
      db.close()
      const store = open()
      assert.equal((await store.acquire(request('k', 'a'))).is, 'granted')
      assert.deepEqual(Object.values(raw().prepare('PRAGMA journal_mode').get() as object)[0], 'wal')
    },
  },
]
