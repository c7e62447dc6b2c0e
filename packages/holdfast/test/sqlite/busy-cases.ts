// What was answered is committed, whatever was refused before it. libsql leaves a prepared statement that met BUSY unfinished;
// what the connection writes next outside of a transaction then succeeds, and is rolled back in silence when it closes.
import assert from 'node:assert/strict'
import { StoreError } from '../../src/lease/errors.js'
import { type Case, grantOf, longestBlockMs, request } from './harness.js'

/** A plain step that is refused until its caller's time is over. */
const givenUp = (error: unknown) => error instanceof StoreError && error.outcome === 'none'

export const busyCases: Case[] = [
  {
    name: 'C44 G1 a release that follows an acquire refused as busy is committed, as others see and after closing',
    async run({ open, raw }) {
      const store = open()
      const other = open()
      await store.acquire(request('a', 'first'))
      const blocker = raw()
      blocker.exec('BEGIN IMMEDIATE')
      await assert.rejects(store.acquire(request('b', 'second'), { timeoutMs: 20 }), givenUp)
      blocker.exec('COMMIT')
      assert.equal((await store.release(grantOf('a', 'first'))).is, 'released')
      assert.equal((await other.inspect('a'))?.state, 'free')
      await store.close()
      assert.equal((await other.acquire(request('a', 'third'))).is, 'granted')
    },
  },
  {
    name: 'C44 G2 a grant that follows steps refused as busy is there for others: theirs is refused',
    async run({ open, raw }) {
      const store = open()
      const other = open()
      const blocker = raw()
      for (let round = 0; round < 5; round++) {
        blocker.exec('BEGIN IMMEDIATE')
        const refused = [
          store.acquire(request('x', `x${round}`), { timeoutMs: 20 }),
          store.acquire(request('y', `y${round}`), { timeoutMs: 20 }),
          store.release(grantOf('z', `z${round}`), { timeoutMs: 20 }),
        ]
        for (const step of refused) await assert.rejects(step, givenUp)
        blocker.exec('COMMIT')
        assert.equal((await store.acquire(request(`key ${round}`, 'mine'))).is, 'granted')
        assert.equal((await other.acquire(request(`key ${round}`, 'theirs'))).is, 'held')
      }
      await store.close()
      for (let round = 0; round < 5; round++) assert.equal((await other.inspect(`key ${round}`))?.claim, 'mine')
    },
  },
  {
    name: 'C44 the naive way fails: waiting by SQLite itself stops the event loop, and does not help who has read before',
    async run({ open, raw, path }) {
      await open().acquire(request('k', 'a'))
      const blocker = raw()
      const naive = raw(path)
      naive.exec('PRAGMA busy_timeout = 800')
      blocker.exec('BEGIN IMMEDIATE')
      const blockedMs = await longestBlockMs(async () => {
        assert.throws(() => naive.exec('BEGIN IMMEDIATE'))
      })
      blocker.exec('COMMIT')
      assert.ok(blockedMs >= 700, `the event loop stood still for ${blockedMs} ms only`)

      naive.exec('BEGIN')
      naive.prepare('SELECT token FROM holdfast_lease').all()
      blocker.exec("UPDATE holdfast_lease SET holder = 'another'")
      const startMs = performance.now()
      assert.throws(() => naive.exec("UPDATE holdfast_lease SET holder = 'naive'"))
      assert.ok(performance.now() - startMs < 700, 'refused at once, in spite of the time-out')
      naive.exec('ROLLBACK')
    },
  },
]
