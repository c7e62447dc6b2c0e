// Who waits in one process, with a connection for wake-ups that a test makes, cuts and lets speak: when it subscribes, whom a
// message wakes, what is asked for again, and what goes. In virtual time, without a server.
import { describe, expect, it } from 'vitest'
import type { SubscriberEvents } from '../../src/stores/redis/client.js'
import { SHARED_MAX, Shared } from '../../src/stores/redis/share.js'
import { Watches } from '../../src/stores/redis/watch.js'
import { seededRandom, VirtualClock } from '../../src/testing/index.js'

interface Connection {
  readonly events: SubscriberEvents
  readonly subscribed: string[]
  readonly unsubscribed: string[]
  closed: boolean
}

function setUp({ inbox = 'inbox' } = {}) {
  const clock = new VirtualClock()
  const connections: Connection[] = []
  const looks: string[] = []
  const probes: [string, string][] = []
  const fail = { open: 0, subscribe: 0, probe: 0, why: new Error('reset') as Error }
  /** While it is set, subscriptions wait for it. */
  const hold = { subscribe: undefined as Promise<void> | undefined }
  const watches = new Watches({
    clock,
    random: seededRandom(1),
    inbox,
    async open(events) {
      if (fail.open-- > 0) throw fail.why
      const connection: Connection = { events, subscribed: [], unsubscribed: [], closed: false }
      connections.push(connection)
      return {
        async subscribe(channel) {
          connection.subscribed.push(channel)
          await hold.subscribe
          if (fail.subscribe-- > 0) throw fail.why
        },
        async unsubscribe(channel) {
          connection.unsubscribed.push(channel)
        },
        close() {
          connection.closed = true
        },
      }
    },
    async look(_name, claim) {
      looks.push(claim)
    },
    async probe(name, message) {
      if (fail.probe-- > 0) throw fail.why
      probes.push([name, message])
    },
  })
  /** Watches, and counts its hints. */
  const watch = (name: string, claim: string) => {
    const ending = new AbortController()
    const seen = { hints: 0, ended: false, error: undefined as unknown, leave: () => ending.abort() }
    const listen = async () => {
      for await (const _ of watches.watch(name, claim, ending.signal)) seen.hints++
    }
    listen().then(
      () => {
        seen.ended = true
      },
      (error: unknown) => {
        seen.error = error
      },
    )
    return seen
  }
  /** Joins the queue of a key as an acquire does that was sent now. */
  const queue = (name: string, claim: string) => watches.queued(name, claim, watches.generationOf(name))
  const last = () => connections.at(-1) as Connection
  const hear = (channel: string, message: string) => last().events.onMessage(channel, message)
  return { clock, connections, looks, probes, fail, hold, watches, watch, queue, last, hear }
}

describe('a subscription', () => {
  it('is made once for all who watch a key, and each looks when it is in place', async () => {
    const { clock, watch, last, looks } = setUp()
    const [a, b] = [watch('k', 'a'), watch('k', 'b')]
    await clock.settle()
    expect(last().subscribed).toEqual(['k'])
    expect(looks).toEqual(['a', 'b'])
    expect([a.hints, b.hints]).toEqual([1, 1])
    watch('k', 'c')
    await clock.settle()
    expect(last().subscribed).toEqual(['k'])
    expect(looks).toEqual(['a', 'b', 'c'])
  })

  it('that fails is tried again, after a while that grows', async () => {
    const { clock, watch, last, fail } = setUp()
    fail.subscribe = 4
    const seen = watch('k', 'a')
    await clock.settle()
    expect(last().subscribed).toHaveLength(1)
    await clock.advance(20) // at least a half of 50
    expect(last().subscribed).toHaveLength(1)
    await clock.advance(30)
    expect(last().subscribed).toHaveLength(2)
    await clock.advance(2_000)
    expect(last().subscribed).toHaveLength(5)
    expect(seen.hints).toBe(1)
    await clock.advance(1_000)
    expect(last().subscribed).toHaveLength(5)
  })

  it('whose connection cannot be opened is tried again with another', async () => {
    const { clock, watch, connections, fail } = setUp()
    fail.open = 2
    const seen = watch('k', 'a')
    await clock.advance(1_000)
    expect(connections).toHaveLength(1)
    expect(seen.hints).toBe(1)
  })

  it('that is forbidden ends the watch, and says so', async () => {
    const { clock, watch, fail, last } = setUp()
    fail.subscribe = 1
    fail.why = new Error("NOPERM this user has no permissions to run the 'subscribe' command")
    const seen = watch('k', 'a')
    await clock.advance(60_000)
    expect(String(seen.error)).toContain('the ACL needs')
    expect(last().subscribed).toHaveLength(1)
  })

  it('on a connection that was replaced meanwhile does not count', async () => {
    const { clock, watch, connections, hold, last } = setUp()
    const first = watch('k', 'a')
    await clock.settle()
    let confirm = () => {}
    hold.subscribe = new Promise((resolve) => {
      confirm = resolve
    })
    const second = watch('other', 'b')
    await clock.advance(10_000) // no probe was answered: another connection
    hold.subscribe = undefined
    confirm()
    await clock.advance(1_000)
    expect(connections.length).toBeGreaterThan(1)
    expect(last().subscribed).toContain('other')
    expect([first.hints > 1, second.hints]).toEqual([true, 1])
  })

  it('on a connection that came back is made again, and everybody looks again', async () => {
    const { clock, watch, last } = setUp()
    const seen = watch('k', 'a')
    await clock.settle()
    last().events.onUp()
    await clock.settle()
    expect(last().subscribed).toEqual(['k', 'k'])
    expect(seen.hints).toBe(2)
  })
})

describe('a message', () => {
  it('wakes the one whose turn it is, with its token; of another nobody; "*" has everybody look', async () => {
    const { clock, watch, queue, hear, looks } = setUp()
    queue('k', 'a')
    const [a, b] = [watch('k', 'a'), watch('k', 'b')]
    await clock.settle()
    const before = [a.hints, b.hints]
    hear('inbox', '!17 a')
    await clock.settle()
    expect([a.hints, b.hints]).toEqual([(before[0] ?? 0) + 1, before[1]])
    looks.length = 0
    hear('k', '*')
    await clock.settle()
    expect(looks).toEqual(['b'])
    expect(b.hints).toBe((before[1] ?? 0) + 1)
    hear('elsewhere', '*')
    hear('k', 'what is this')
    await clock.settle()
    expect(b.hints).toBe((before[1] ?? 0) + 1)
  })

  it('for a claim that does not watch yet is kept for it, until the channel is subscribed anew', async () => {
    const { clock, watch, queue, hear, last } = setUp()
    queue('k', 'a')
    watch('k', 'a')
    await clock.settle()
    queue('k', 'b')
    hear('inbox', '!0 b')
    const b = watch('k', 'b')
    await clock.settle()
    expect(b.hints).toBe(1)
    queue('k', 'c')
    hear('inbox', '!0 c')
    last().events.onUp()
    await clock.settle()
    queue('k', 'c')
    const c = watch('k', 'c')
    await clock.settle()
    expect(c.hints).toBe(0) // it joined the queue anew, under this subscription: what was said before that is over
  })

  it('of a connection that was replaced is not heard', async () => {
    const { clock, watch, queue, connections } = setUp()
    queue('k', 'a')
    const seen = watch('k', 'a')
    await clock.settle()
    await clock.advance(10_000) // deaf
    expect(connections.length).toBeGreaterThan(1)
    const before = seen.hints
    connections[0]?.events.onMessage('inbox', '!0 a')
    await clock.settle()
    expect(seen.hints).toBe(before)
  })

  it('reaches a claim that watched before it stood in the queue, on the channel of its process', async () => {
    const { clock, watch, queue, hear, last } = setUp()
    const seen = watch('k', 'a')
    await clock.settle()
    queue('k', 'a')
    await clock.settle()
    expect(last().subscribed).toEqual(['k', 'inbox'])
    const before = seen.hints
    hear('inbox', '!0 a')
    await clock.settle()
    expect(seen.hints).toBe(before + 1)
  })
})

describe('the connection', () => {
  it('is put to the test every five seconds, replaced when it does not hear, and kept when the server has the trouble', async () => {
    const { clock, watch, connections, probes, fail, hear } = setUp()
    watch('k', 'a')
    await clock.advance(5_001)
    expect(probes).toHaveLength(1)
    hear('k', probes[0]?.[1] ?? '')
    await clock.advance(5_000)
    expect(connections).toHaveLength(1)
    hear('k', probes[1]?.[1] ?? '')
    fail.probe = 3
    await clock.advance(15_000)
    expect(connections).toHaveLength(1)
    fail.probe = 0
    await clock.advance(10_000)
    expect(connections.length).toBeGreaterThan(1)
    expect(connections[0]?.closed).toBe(true)
  })

  it('goes ten seconds after its last watcher, with its timer; and a channel before that when others are watched', async () => {
    const { clock, watch, last, hear, probes, connections } = setUp()
    const [a, b] = [watch('k', 'a'), watch('other', 'b')]
    await clock.settle()
    const answer = async (forMs: number) => {
      for (let ms = 0; ms < forMs; ms += 500) {
        await clock.advance(500)
        for (const [name, message] of probes.splice(0)) hear(name, message)
      }
    }
    a.leave()
    await answer(9_000)
    expect(last().unsubscribed).toEqual([])
    await answer(5_000)
    expect(last().unsubscribed).toEqual(['k'])
    b.leave()
    await answer(14_000)
    expect(last().closed).toBe(true)
    expect(connections).toHaveLength(1)
    expect(clock.pending).toBe(0)
  })

  it('ends with the store, and so does everybody who watches, and who comes later', async () => {
    const { clock, watch, watches, last } = setUp()
    const before = watch('k', 'a')
    await clock.settle()
    watches.close()
    const after = watch('k', 'b')
    await clock.settle()
    expect([before.ended, after.ended, last().closed, clock.pending]).toEqual([true, true, true, 0])
    expect(last().subscribed).toEqual(['k'])
  })
})

describe('operations that share a call', () => {
  const sharing = () => {
    const sent: string[][] = []
    const moving = { is: false }
    const shared = new Shared<string, string>({
      async send(ops) {
        sent.push([...ops])
        if (moving.is && ops.length > 1) throw new Error('TRYAGAIN Multiple keys request during rehashing of slot')
        const answers = ops.map((op) => `answer to ${op}`)
        return answers.length === 1 ? answers[0] : answers
      },
      read(op, reply) {
        if (op.endsWith('?')) throw new Error(`cannot read the answer to ${op}`)
        return String(reply)
      },
      groupOf: (op) => op.slice(0, 1),
      alike: (one, other) => one.startsWith('z') && other.startsWith('z'),
      most: SHARED_MAX,
    })
    const ask = (...ops: string[]) => Promise.all(ops.map((op) => shared.ask(op)))
    return { sent, moving, ask }
  }

  it('are those of one group, so many at most', async () => {
    const { sent, ask } = sharing()
    expect(await ask('a1', 'b1', 'a2')).toEqual(['answer to a1', 'answer to b1', 'answer to a2'])
    expect(sent).toEqual([['a1', 'a2'], ['b1']])
    sent.length = 0
    await ask(...Array.from({ length: SHARED_MAX + 1 }, (_, i) => `a${i}`))
    expect(sent.map(({ length }) => length)).toEqual([SHARED_MAX, 1])
  })

  it('that are certainly alike need no name of their group', async () => {
    const { sent, ask } = sharing()
    await ask(...Array.from({ length: SHARED_MAX + 2 }, (_, i) => `z${i}`))
    expect(sent.map(({ length }) => length)).toEqual([SHARED_MAX, 2])
    sent.length = 0
    await ask('z1', 'a1', 'z2')
    expect(sent).toEqual([['z1', 'z2'], ['a1']])
  })

  it('have each its own answer, also where that of one cannot be read', async () => {
    const { ask } = sharing()
    const asked = ['a1', 'a2?', 'a3'].map((op) => ask(op).then(String, ({ message }: Error) => message))
    expect(await Promise.all(asked)).toEqual(['answer to a1', 'cannot read the answer to a2?', 'answer to a3'])
  })

  it('go one by one for a while when their slot is on the move, and together again after that', async () => {
    const { sent, moving, ask } = sharing()
    moving.is = true
    expect(await ask('a1', 'a2')).toEqual(['answer to a1', 'answer to a2'])
    expect(sent).toEqual([['a1', 'a2'], ['a1'], ['a2']])
    sent.length = 0
    await ask('a1', 'a2')
    await ask('b1', 'b2')
    expect(sent).toEqual([['a1'], ['a2'], ['b1', 'b2'], ['b1'], ['b2']]) // each group by itself
    moving.is = false
    for (let i = 0; i < 40; i++) await ask('a1', 'a2')
    sent.length = 0
    await ask('a1', 'a2')
    expect(sent).toEqual([['a1', 'a2']])
  })
})
