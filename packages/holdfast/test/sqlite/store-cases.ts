// What the SQLite store promises beyond the conformance suite, as cases that run on every driver.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { StoreError } from '../../src/lease/errors.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import type { SqliteDatabase } from '../../src/stores/sqlite/index.js'
import {
  type Case,
  driverError,
  faultyDriver,
  grantOf,
  longestBlockMs,
  request,
  SettableClock,
  waitUntil,
} from './harness.js'
import { openingCases } from './opening-cases.js'

const none = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof StoreError, String(error))
  assert.equal(error.outcome, 'none')
  assert.match(error.message, pattern)
  return true
}

const waiting: Case[] = [
  {
    name: 'C44 while another has the write lock for 3 s nobody is told BUSY, the event loop turns, and leases elsewhere are renewed',
    async run({ open, raw }) {
      const store = open()
      const elsewhere = memoryStore()
      await store.acquire(request('k', 'a', { ttlMs: 10_000 }))
      await elsewhere.acquire(request('other', 'b', { ttlMs: 2_500 }))
      const db = raw()
      db.exec('BEGIN IMMEDIATE')
      const endMs = performance.now() + 3_000
      let renewals = 0
      let answered = false
      const renewing = store.renew([{ key: 'k', claim: 'a', ttlMs: 10_000 }])
      renewing.then(() => {
        answered = true
      })
      const blockedMs = await longestBlockMs(async () => {
        while (performance.now() < endMs) {
          const [outcome] = await elsewhere.renew([{ key: 'other', claim: 'b', ttlMs: 2_500 }])
          assert.equal(outcome?.is, 'renewed')
          renewals++
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
      })
      assert.equal(answered, false)
      assert.ok(blockedMs < 2_500, `the event loop stood still for ${blockedMs} ms`)
      assert.ok(renewals > 10)
      db.exec('COMMIT')
      assert.deepEqual(await renewing, [{ is: 'renewed', ttlMs: 10_000 }])
    },
  },
  {
    name: 'G13 a call ends with its time-out or its signal, as StoreError of outcome none, and is not applied later',
    async run({ open, raw }) {
      const store = open()
      const db = raw()
      db.exec('BEGIN IMMEDIATE')
      await assert.rejects(
        store.acquire(request('a', 'a'), { timeoutMs: 30 }),
        none(/could not be written for \d+ ms: another process holds its write lock/),
      )
      const abort = new AbortController()
      const aborted = store.acquire(request('b', 'b'), { signal: abort.signal, timeoutMs: 600_000 })
      abort.abort(new Error('no longer'))
      await assert.rejects(
        aborted,
        (error: StoreError) => none(/given up/)(error) && error.cause === abort.signal.reason,
      )
      await assert.rejects(
        store.acquire(request('c', 'c'), { signal: AbortSignal.abort(), timeoutMs: 600_000 }),
        none(/given up/),
      )
      const renewed = await store
        .renew([{ key: 'a', claim: 'a', ttlMs: 1_000 }], { timeoutMs: 20 })
        .catch((error) => error)
      none(/could not be written/)(renewed)
      db.exec('COMMIT')
      assert.equal((await store.acquire(request('d', 'd'))).is, 'granted')
      for (const key of ['a', 'b', 'c']) assert.equal(await store.inspect(key), null)
    },
  },
  {
    name: 'calls that are made together share one transaction',
    async run({ open, Database }) {
      let transactions = 0 // a plain statement that shares none is one of its own
      let begun = false
      const counting = faultyDriver(Database, (sql) => {
        if (sql.startsWith('INSERT') && !begun) transactions++
      })
      class Counting extends counting {
        override exec(sql: string): unknown {
          if (sql === 'BEGIN IMMEDIATE') {
            transactions++
            begun = true
          }
          return super.exec(sql)
        }
      }
      const store = open({ Database: Counting })
      transactions = 0
      begun = false
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) => store.acquire(request(`k${index}`, 'a'))),
      )
      assert.ok(answers.every(({ is }) => is === 'granted'))
      assert.ok(transactions <= 5, `${transactions} transactions for 20 calls`) // one, unless the machine is slow
    },
  },
  {
    name: 'a chain of awaits lets timers fire',
    async run({ open }) {
      const store = open()
      let fired = false
      setTimeout(() => {
        fired = true
      }, 1)
      const endMs = performance.now() + 10_000
      for (let round = 0; !fired && performance.now() < endMs; round++) {
        await store.acquire(request('k', `c${round}`))
        await store.release(grantOf('k', `c${round}`))
      }
      assert.ok(fired)
    },
  },
  {
    name: 'closing turns away who waits, and all who come later',
    async run({ open, raw }) {
      const store = open()
      const db = raw()
      db.exec('BEGIN IMMEDIATE')
      const waiter = store.acquire(request('k', 'a'))
      const refused = assert.rejects(waiter, none(/is closed/))
      await new Promise((resolve) => setImmediate(resolve))
      await store.close()
      await refused
      await assert.rejects(store.inspect('k'), none(/is closed/))
      await assert.rejects(store.prune(), none(/is closed/))
      db.exec('COMMIT')
      await store.close()
    },
  },
]

const faults: Case[] = [
  {
    name: 'G13 an error at the commit leaves the outcome unknown; before it the step was not applied; the store stays usable',
    async run({ open, Database }) {
      let fail = (_sql: string) => {}
      const store = open({ Database: faultyDriver(Database, (sql) => fail(sql)) })
      const failOnce = (part: string) => {
        fail = (sql) => {
          if (!sql.includes(part)) return
          fail = () => {}
          throw driverError('disk I/O error', 'SQLITE_IOERR_WRITE', 778)
        }
      }
      failOnce('COMMIT')
      await assert.rejects(store.withdraw('k', 'a'), (error: StoreError) => {
        assert.ok(error instanceof StoreError)
        assert.equal(error.outcome, 'unknown')
        assert.match(error.message, /leases\.db failed: check the disk.*unknown/)
        return true
      })
      failOnce('REPLACE INTO')
      await assert.rejects(store.withdraw('k', 'b'), none(/check the disk/))
      const answer = await store.acquire(request('k', 'b'))
      assert.equal(answer.is, 'granted')
      failOnce('UPDATE holdfast_lease SET claim')
      await assert.rejects(store.release(grantOf('k', 'b')), (error: StoreError) => error.outcome === 'unknown')
      assert.deepEqual(await store.release(grantOf('k', 'b')), { is: 'released' })
    },
  },
  {
    name: 'one bad step does not fail those who share its transaction',
    async run({ open, Database }) {
      let poisoned = false
      const store = open({
        Database: faultyDriver(Database, (sql) => {
          if (poisoned && sql.startsWith('REPLACE')) throw driverError('disk I/O error', 'SQLITE_IOERR', 10)
        }),
      })
      poisoned = true
      const results = await Promise.allSettled([
        store.acquire(request('a', 'a')),
        store.withdraw('b', 'b'),
        store.acquire(request('c', 'c')),
      ])
      assert.deepEqual(
        results.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      )
      poisoned = false
      assert.equal((await store.inspect('a'))?.state, 'held')
      assert.equal((await store.inspect('c'))?.state, 'held')
    },
  },
  {
    name: 'C44 a full disk is said, and the store goes on when there is space again',
    async run({ open, Database }) {
      const stores: SqliteDatabase[] = []
      let pages = 8
      class Small extends Database {
        constructor(path: string) {
          super(path)
          this.exec(`PRAGMA max_page_count = ${pages}`)
          stores.push(this)
        }
      }
      const store = open({ Database: Small })
      const fill = async () => {
        for (let index = 0; index < 400; index++) await store.acquire(request(`key-${index}-${'x'.repeat(200)}`, 'a'))
      }
      await assert.rejects(fill(), none(/no space is left for .*leases\.db: free some/))
      await assert.rejects(fill(), none(/no space is left/))
      pages = 100_000
      await fill()
      assert.ok(stores.length >= 2)
    },
  },
  {
    name: 'C44 a file deleted and made anew while open is noticed: a stale handle does not go on granting',
    async run({ open, path }) {
      const stale = open()
      assert.equal((await stale.acquire(request('k', 'old'))).is, 'granted')
      for (const name of [path, `${path}-wal`, `${path}-shm`]) rmSync(name, { force: true })
      const fresh = open()
      const granted = await fresh.acquire(request('k', 'new'))
      assert.equal(granted.is, 'granted')
      await waitUntil(async () => (await stale.renew([{ key: 'k', claim: 'old', ttlMs: 30_000 }]))[0]?.is === 'lost')
      const refused = await stale.acquire(request('k', 'late'))
      assert.ok(refused.is === 'held' && refused.holder === 'holder of new')
    },
  },
  {
    name: 'C54 a token beyond 2^53 - 1 in the row is refused, not rounded; the last exact one is the end of its key',
    async run({ open, raw }) {
      const store = open()
      for (const key of ['last', 'beyond', 'far']) {
        await store.acquire(request(key, 'a'))
        await store.release(grantOf(key, 'a'))
      }
      const db = raw()
      db.exec("UPDATE holdfast_lease SET token = 9007199254740990 WHERE key = 'last'")
      db.exec("UPDATE holdfast_lease SET token = 9007199254740993 WHERE key = 'beyond'")
      db.exec("UPDATE holdfast_lease SET token = 9223372036854775807 WHERE key = 'far'")
      const last = await store.acquire(request('last', 'b'))
      assert.ok(last.is === 'granted' && last.token === Number.MAX_SAFE_INTEGER)
      await store.release(grantOf('last', 'b'))
      await assert.rejects(store.acquire(request('last', 'c')), none(/2\^53 - 1/))
      for (const key of ['beyond', 'far']) {
        await assert.rejects(store.acquire(request(key, 'b')), none(/2\^53 - 1/))
        await assert.rejects(store.inspect(key), StoreError)
      }
      assert.equal((await store.acquire(request('other', 'b'))).is, 'granted')
    },
  },
  {
    name: 'G13 a row that cannot be read fails its own renewal only',
    async run({ open, raw }) {
      const store = open()
      for (const key of ['good', 'bad']) await store.acquire(request(key, 'a'))
      await store.acquire(request('bad', 'b', { queue: { pollMs: 1_000 } }))
      raw().exec("UPDATE holdfast_lease SET queue = 'no json', revoked = 1 WHERE key = 'bad'")
      const outcomes = await store.renew(['bad', 'good'].map((key) => ({ key, claim: 'a', ttlMs: 1_000 })))
      assert.deepEqual(
        outcomes.map(({ is }) => is),
        ['unknown', 'renewed'],
      )
    },
  },
]

const time: Case[] = [
  {
    name: 'G1 G4 the clock of the machine set back: never two holders, and what is held still expires',
    async run({ open }) {
      const clock = new SettableClock()
      const [one, other] = [open({ clock }), open({ clock })]
      const first = await one.acquire(request('k', 'a', { ttlMs: 300 }))
      assert.ok(first.is === 'granted')
      clock.shiftMs = -3_600_000
      const held = await other.acquire(request('k', 'b', { ttlMs: 300 }))
      assert.ok(held.is === 'held' && held.remainingMs <= 300, JSON.stringify(held))
      await waitUntil(async () => (await other.acquire(request('k', 'b', { ttlMs: 60_000 }))).is === 'granted')
      assert.deepEqual(await one.renew([{ key: 'k', claim: 'a', ttlMs: 300 }]), [{ is: 'lost', reason: 'taken' }])
      assert.deepEqual(await one.release(grantOf('k', 'a')), { is: 'lost', reason: 'taken' })
      const second = await other.inspect('k')
      assert.ok(second !== null && second.token > first.token)
      assert.ok(second.remainingMs > 50_000 && second.remainingMs <= 60_000)
    },
  },
  {
    name: 'G2 tokens rise over clock steps, for keys that were forgotten too',
    async run({ open }) {
      const clock = new SettableClock()
      const store = open({ clock })
      let last = 0
      const next = async (claim: string) => {
        const answer = await store.acquire(request('k', claim))
        assert.ok(answer.is === 'granted')
        assert.ok(answer.token > last, `${answer.token} after ${last}`)
        last = answer.token
        await store.release(grantOf('k', claim))
      }
      await next('a')
      clock.shiftMs = -86_400_000
      await next('b')
      clock.shiftMs = 86_400_000
      await next('c')
      assert.equal(await store.prune({ olderThanMs: 0 }), 1)
      assert.equal(await store.inspect('k'), null)
      clock.shiftMs = -86_400_000
      await next('d')
      await store.close()
    },
  },
  {
    name: 'a clock set back is noticed by every process: the offset is kept in the file',
    async run({ open, raw }) {
      const [backward, right] = [new SettableClock(), new SettableClock()]
      const [one, other] = [open({ clock: backward }), open({ clock: right })]
      await other.acquire(request('k', 'a', { ttlMs: 60_000 }))
      backward.shiftMs = -5_000
      const before = [await one.inspect('k')]
      for await (const record of one.list()) before.push(record)
      assert.equal(before.length, 2)
      for (const record of before) assert.ok(record !== null && record.remainingMs <= 60_000, JSON.stringify(record))
      await one.renew([{ key: 'k', claim: 'a', ttlMs: 60_000 }])
      const row = raw().prepare('SELECT offset_ms FROM holdfast_file').get() as { offset_ms: number }
      assert.ok(row.offset_ms > 4_000 && row.offset_ms <= 5_000, String(row.offset_ms))
      const shown = await one.inspect('k')
      assert.ok(shown !== null && shown.remainingMs > 50_000 && shown.remainingMs <= 60_000)
      assert.deepEqual(await other.release(grantOf('k', 'a')), { is: 'released' })
    },
  },
]

const upkeep: Case[] = [
  {
    name: 'prune keeps a token that is ahead of the clock, which would move those of all keys',
    async run({ open }) {
      const store = open()
      await store.acquire(request('ahead', 'a', { tokenFloor: 9e15 }))
      await store.release(grantOf('ahead', 'a'))
      assert.equal(await store.prune({ olderThanMs: 0 }), 0)
      const another = await store.acquire(request('another', 'a'))
      assert.ok(another.is === 'granted' && another.token < 9e15)
      const again = await store.acquire(request('ahead', 'b'))
      assert.ok(again.is === 'granted' && again.token === 9e15 + 1)
    },
  },
  {
    name: 'prune forgets free keys only, and after the retention by itself',
    async run({ open, raw }) {
      const store = open({ retentionMs: 0, endedRetentionMs: 60_000 })
      await store.acquire(request('held', 'a'))
      await store.withdraw('ended', 'z')
      for (let round = 0; round < 300; round++) {
        await store.acquire(request(`free-${round}`, 'a'))
        await store.release(grantOf(`free-${round}`, 'a'))
      }
      const count = () => Number(Object.values(raw().prepare('SELECT count(*) FROM holdfast_lease').get() as object)[0])
      await waitUntil(() => count() < 302)
      await store.prune()
      assert.equal(count(), 2)
      assert.ok((await store.inspect('held'))?.state === 'held')
      const refused = await store.acquire(request('ended', 'z'))
      assert.ok(refused.is === 'held' && refused.because === 'ended')
      await assert.rejects(store.prune({ olderThanMs: Number.NaN }), /olderThanMs must be/)
    },
  },
  {
    name: 'G11 list gives every key once, in the order of its bytes, over many pages',
    async run({ open }) {
      const store = open()
      const names = [
        'ä',
        'z',
        'Z',
        'a%',
        'a_',
        'aa',
        '\u{10000}',
        '\uffff',
        ...Array.from({ length: 450 }, (_, index) => `n/${index}`),
      ]
      await Promise.all(names.map((key) => store.acquire(request(key, 'a'))))
      const listed: string[] = []
      for await (const { key } of store.list()) listed.push(key)
      assert.deepEqual(
        listed,
        [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
      )
      const under: string[] = []
      for await (const { key } of store.list({ prefix: 'n/' })) under.push(key)
      assert.equal(under.length, 450)
      const percent: string[] = []
      for await (const { key } of store.list({ prefix: 'a%' })) percent.push(key)
      assert.deepEqual(percent, ['a%'])
    },
  },
  {
    name: 'renew takes a thousand leases, in order',
    async run({ open }) {
      const store = open()
      const keys = Array.from({ length: 1_000 }, (_, index) => `k${index}`)
      await Promise.all(keys.filter((_, index) => index % 3 > 0).map((key) => store.acquire(request(key, 'a'))))
      const outcomes = await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: 5_000 })))
      assert.deepEqual(
        outcomes.map(({ is }) => is),
        keys.map((_, index) => (index % 3 > 0 ? 'renewed' : 'lost')),
      )
      assert.deepEqual(await store.renew([]), [])
    },
  },
  {
    name: 'G8 a watcher in another process hears of a release, and its watch ends with the signal',
    async run({ open }) {
      const [holder, waiter] = [open(), open()]
      await holder.acquire(request('k', 'a'))
      const end = new AbortController()
      const watch = waiter.watch('k', { claim: 'b', signal: end.signal })[Symbol.asyncIterator]()
      let hinted = false
      const hint = watch.next().then(({ done }) => {
        hinted = done !== true
      })
      await holder.acquire(request('other', 'x'))
      assert.equal(hinted, false)
      await holder.release(grantOf('k', 'a'))
      await hint
      assert.equal(hinted, true)
      const last = watch.next()
      end.abort()
      for (let result = await last; result.done !== true; ) result = await watch.next()
    },
  },
]

export const storeCases: readonly Case[] = [...openingCases, ...waiting, ...faults, ...time, ...upkeep]
