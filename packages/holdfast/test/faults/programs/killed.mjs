// A process that kills itself in the middle of a verb: right before the n-th statement that the store sends, or right after it.
//
//   node killed.mjs PATH VERB N before|after all|writes     N = 0: never
//
// The connection is the real one; only each call of a statement is counted. `hammer` never ends: somebody else kills it.
import Database from 'libsql'
import { sqliteStore } from '../../../dist/stores/sqlite/index.js'

const [path, verb, nth, when, what] = process.argv.slice(2)
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const KEY = 'k'
const TTL_MS = 10_000
const POLL_MS = 1_000

let armed = verb === 'open'
let count = 0

function counted(call) {
  if (!armed) return call()
  count++
  const mine = count === Number(nth)
  if (mine && when === 'before') process.kill(process.pid, 'SIGKILL')
  const result = call()
  if (mine && when === 'after') process.kill(process.pid, 'SIGKILL')
  return result
}

class CountingDatabase extends Database {
  prepare(sql) {
    const statement = super.prepare(sql)
    for (const name of what === 'all' ? ['run', 'get', 'all'] : ['run']) {
      const call = statement[name].bind(statement)
      statement[name] = (...values) => counted(() => call(...values))
    }
    return statement
  }
  exec(sql) {
    return counted(() => super.exec(sql))
  }
}

let wallMs = Date.now()
const clock = {
  monoMs: () => performance.now(),
  wallMs: () => wallMs,
  setTimer(delayMs, fn) {
    const timer = setTimeout(fn, delayMs)
    return { cancel: () => clearTimeout(timer), keepAlive: (on) => (on ? timer.ref() : timer.unref()) }
  },
}

const store = sqliteStore({ path, Database: CountingDatabase, clock, synchronous: 'full' })
const request = (claim, more) => ({ key: KEY, claim, holder: claim, ttlMs: TTL_MS, ...more })
async function acquire(claim, more) {
  const answer = await store.acquire(request(claim, more))
  if (answer.is === 'granted') say({ token: answer.token })
  return answer
}
const release = (claim) => store.release({ key: KEY, claim, token: 0, holder: claim })
const queue = { pollMs: POLL_MS }

/** What there is before the verb, and the verb. */
const verbs = {
  open: [async () => {}, async () => {}],
  acquire: [async () => {}, () => acquire('a')],
  'acquire with meta': [async () => {}, () => acquire('a', { meta: { why: 'a test' } })],
  'acquire, refused and queued': [() => acquire('a'), () => acquire('b', { queue })],
  'acquire by the head of the queue': [
    async () => {
      await acquire('a')
      await acquire('b', { queue })
      await release('a')
    },
    () => acquire('b', { queue }),
  ],
  handover: [() => acquire('a'), () => acquire('b', { replaces: 'a' })],
  renew: [() => acquire('a'), () => store.renew(['a', 'b'].map((claim) => ({ key: KEY, claim, ttlMs: TTL_MS })))],
  release: [() => acquire('a'), () => release('a')],
  'release to a queue': [
    async () => {
      await acquire('a')
      await acquire('b', { queue })
    },
    () => release('a'),
  ],
  withdraw: [() => acquire('a'), () => store.withdraw(KEY, 'a')],
  revoke: [() => acquire('a'), () => store.revoke(KEY)],
  'revoke with force': [() => acquire('a'), () => store.revoke(KEY, { force: true })],
  'acquire after the clock was set back': [
    async () => {
      await acquire('a')
      await release('a')
      wallMs -= 3_600_000
    },
    () => acquire('b'),
  ],
  prune: [
    async () => {
      await acquire('a')
      await release('a')
      wallMs += 1_000
    },
    () => store.prune({ olderThanMs: 0 }),
  ],
  hammer: [
    async () => {},
    async () => {
      for (let i = 0; ; i++) {
        wallMs += 1
        await acquire(`a${i}`)
        await acquire(`b${i}`, { queue })
        await store.renew([{ key: KEY, claim: `a${i}`, ttlMs: TTL_MS }])
        if (i % 2 === 0) await release(`a${i}`)
        else await store.withdraw(KEY, `a${i}`)
        await acquire(`b${i}`, { queue })
        await acquire(`c${i}`, { replaces: `b${i}` })
        await release(`c${i}`)
        if (i % 5 === 4) await store.prune({ olderThanMs: 0 })
      }
    },
  ],
}

const [before, doIt] = verbs[verb]
await before()
say({ ready: true })
armed = true
await doIt()
armed = false
