// A lock on a bucket as people write it: the holder's name and an expiry by the writer's clock in a value, read, looked at, and
// written again. The cases that Holdfast passes must fail on it.
import type { KV } from '@nats-io/kv'
import { systemClock } from '../../src/lease/clock.js'

export interface NaiveLock {
  /** Whether it is held now, by this name. */
  acquire(): Promise<boolean>
  renew(): Promise<boolean>
  release(): Promise<void>
  readonly believes: boolean
}

export function naiveLock(kv: KV, name: string, ttlMs: number, nowMs: () => number): NaiveLock {
  let believes = false
  const look = async () => {
    const entry = await kv.get('k')
    return entry === null || entry.operation !== 'PUT' ? undefined : (entry.json() as { name: string; untilMs: number })
  }
  const write = () => kv.put('k', JSON.stringify({ name, untilMs: nowMs() + ttlMs }))
  return {
    async acquire() {
      const seen = await look()
      believes = seen === undefined || seen.untilMs <= nowMs() || seen.name === name
      if (believes) await write()
      return believes
    },
    async renew() {
      await write().catch(() => {}) // next time it will work
      return believes
    },
    async release() {
      believes = false
      await kv.delete('k')
    },
    get believes() {
      return believes
    },
  }
}

export interface NaiveElector {
  /** Takes it, or renews what is its own. Never fails: whatever is thrown is "somebody else has it". */
  turn(): Promise<boolean>
  readonly leads: boolean
  /** How often it gave up what it had. */
  readonly losses: number
}

/**
 * A lock of people who know of revisions: it creates the key, and renews it over the revision of its last write, each with a time-out
 * of its own. It never looks who has it.
 */
export function naiveElector(kv: KV, who: string, timeoutMs: number): NaiveElector {
  let revision = 0
  let leads = false
  let losses = 0
  const within = <T>(asked: Promise<T>) => {
    asked.catch(() => {}) // too late for anybody to hear of it
    let stop: () => void = () => {}
    const late = new Promise<never>((_, reject) => {
      const timer = systemClock.setTimer(timeoutMs, () => reject(new Error('time-out')))
      stop = () => timer.cancel()
    })
    return Promise.race([asked, late]).finally(() => stop())
  }
  return {
    async turn() {
      try {
        revision = await within(leads ? kv.update('k', who, revision) : kv.create('k', who))
        leads = true
      } catch {
        if (leads) losses++
        leads = false
      }
      return leads
    },
    get leads() {
      return leads
    },
    get losses() {
      return losses
    },
  }
}
