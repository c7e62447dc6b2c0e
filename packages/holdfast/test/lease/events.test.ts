// Events: stable names, on `onEvent` and on diagnostics channels; a listener that fails hurts nobody (G9).
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import type { LeaseEvent } from '../../src/index.js'
import { setUp, track } from './world.js'

/** Listens to a channel for as long as a test needs it. */
async function on(type: string, run: (heard: unknown[]) => Promise<void>): Promise<void> {
  const heard: unknown[] = []
  const listener = (message: unknown) => void heard.push(message)
  subscribe(`holdfast:${type}`, listener)
  try {
    await run(heard)
  } finally {
    unsubscribe(`holdfast:${type}`, listener)
  }
}

describe('events', () => {
  it('tell the life of a lease in order', async () => {
    const { clock, memory, client, events } = setUp()
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 1_000 })
    const lease = await clock.advanceUntil(client().acquire('k', { ttlMs: 10_000 }))
    await clock.advance(5_000)
    await lease.release()
    expect(events).toEqual([
      { type: 'waiting', key: 'k', holder: 'other', remainingMs: 1_000 },
      { type: 'acquired', key: 'k', token: 2, waitedMs: 1_000 },
      { type: 'renewed', key: 'k', token: 2, remainingMs: 9_000 },
      { type: 'released', key: 'k', token: 2 },
    ])
  })

  it('say once of each caller that it waits', async () => {
    const { clock, client, eventsOf } = setUp()
    await client().acquire('k')
    const waiting = track(client().acquire('k', { waitMs: 10_000 }))
    await clock.advance(10_000)
    expect(waiting.is()).toBe('rejected')
    expect(eventsOf('waiting')).toHaveLength(1)
  })

  it('reach diagnostics channels named after their type, without onEvent too', async () => {
    const { clock, client } = setUp()
    await on('acquired', async (heard) => {
      const lease = await client({ onEvent: undefined }).acquire('k', { ttlMs: 1_000, renew: false })
      expect(heard).toEqual([{ type: 'acquired', key: 'k', token: lease.token, waitedMs: 0 }])
    })
    await on('lost', async (heard) => {
      await clock.advance(1_000)
      expect(heard).toEqual([{ type: 'lost', key: 'k', token: 1, reason: 'deadline' }])
    })
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('mine')
      },
    ],
    ['rejects', async () => Promise.reject(new Error('mine'))],
  ])('a listener that %s hurts nobody, and is told of on its own channel', async (_, fail) => {
    const { clock, net, client } = setUp()
    const seen: string[] = []
    const onEvent = (event: LeaseEvent) => {
      seen.push(event.type)
      return fail()
    }
    await on('callback-failed', async (heard) => {
      const leases = client({ onEvent })
      net.next('renew', { fail: new Error('down') })
      const lease = await leases.acquire('k', { ttlMs: 1_000 })
      const next = track(leases.acquire('k'))
      await clock.advance(5_000)
      expect(lease.held).toBe(true)
      await lease.release()
      await clock.settle()
      expect(next.value().held).toBe(true)
      expect(seen).toContain('renewal-failed')
      expect(heard).toHaveLength(seen.length)
      expect(heard[0]).toMatchObject({ callback: 'onEvent', cause: { message: 'mine' } })
    })
  })
})
