// Whether this user may do what the store does: tried, on a key of its own that goes away by itself within seconds. What an ACL
// forbids is found here, and nowhere else.
import { randomBytes } from 'node:crypto'
import type { AcquireRequest, LeaseStore } from 'holdfast'
import { messageOf } from '../exit.js'
import type { Finding } from './finding.js'
import type { Send } from './redis-read.js'

const TTL_MS = 1_000
const WATCH_MS = 3_000

export interface ProbeParts {
  /** The store, with a retention of a moment. */
  readonly store: LeaseStore
  readonly prefix: string
  readonly send: Send
  /** The option of the store. */
  readonly replicas: number
}

export async function rightsFinding({ store, prefix, send, replicas }: ProbeParts): Promise<Finding> {
  const key = `holdfast-doctor-${randomBytes(6).toString('hex')}`
  const contender = (holder: string): AcquireRequest => ({
    key,
    claim: randomBytes(16).toString('hex'),
    holder,
    ttlMs: TTL_MS,
    queue: { pollMs: TTL_MS },
  })
  const [first, second] = [contender('doctor'), contender('doctor too')]
  const grant = { key, claim: first.claim, holder: first.holder, token: 1 }
  const lone = { key: `${key}-lone`, claim: first.claim, holder: first.holder }
  const tries: [what: string, run: () => Promise<unknown>][] = [
    ['acquire', () => store.acquire(first)],
    ['wait in line', () => store.acquire(second)],
    ['listen', () => firstHint(store, second)],
    ['renew', () => store.renew([{ ...grant, ttlMs: TTL_MS }])],
    ['inspect', () => store.inspect(key)],
    ['release, and wake up', () => store.release(grant)],
    // With nobody in line a release is another command of the server's.
    ['release', () => store.acquire({ ...lone, ttlMs: TTL_MS }).then(({ token }) => store.release({ ...lone, token }))],
    ['withdraw', () => store.withdraw(key, second.claim)],
    ['list', () => listed(send, `${prefix}${key}`)],
  ]
  if (replicas > 0) tries.push(['wait for replicas', () => send('wait', '0', '1')])

  const failed: string[] = []
  const said = new Set<string>()
  for (const [what, run] of tries) {
    try {
      await run()
    } catch (error) {
      failed.push(what)
      said.add(messageOf(error))
    }
  }
  const base = { what: 'rights', touches: ['G8', 'G13'] }
  const who = await whoAmI(send)
  if (failed.length === 0) return { ...base, read: `${who} may do all that is needed`, level: 'ok', advice: '' }
  return { ...base, read: `${who} cannot ${failed.join(', ')}`, level: 'problem', advice: [...said].join('; ') }
}

/** One step of what `ls` does: all of it would look at every key of the server. */
async function listed(send: Send, name: string): Promise<void> {
  try {
    await send('scan', '0', 'MATCH', name, 'COUNT', '1', 'TYPE', 'string')
  } catch (error) {
    throw new Error(`ls needs +scan (${messageOf(error)})`)
  }
}

/** Subscribes as a waiter does: when that is in place, the store gives a hint. */
async function firstHint(store: LeaseStore, { key, claim }: AcquireRequest): Promise<void> {
  if (store.watch === undefined) return
  const limit = AbortSignal.timeout(WATCH_MS)
  for await (const _ of store.watch(key, { claim, signal: limit })) return
  throw new Error(`no subscription within ${WATCH_MS / 1_000} s`)
}

async function whoAmI(send: Send): Promise<string> {
  try {
    return `user ${JSON.stringify(String(await send('acl', 'whoami')))}`
  } catch {
    return 'this user'
  }
}
