// What callers pass: durations, waits and names (C01, C02, C04, C06).
import { type ClientCase, check } from './case.js'

const DAY_MS = 86_400_000
const INT_MAX = 2 ** 31 - 1

const isRefusal = (error: unknown, option: string) =>
  error instanceof Error && 'option' in error && error.option === option && error.message.startsWith(option)

export const inputCases: ClientCase[] = [
  {
    id: 'C01',
    title: 'a ttl that is no positive number is refused by name, at once, and never as held by another',
    naive: /ttlMs NaN was not refused by name/,
    async run({ client, net, outcome }) {
      const leases = client()
      for (const ttlMs of [Number.NaN, Number.POSITIVE_INFINITY, 0, -1, '1000', null, 1e-3] as number[]) {
        const { error } = await outcome(leases.acquire('k', { ttlMs, waitMs: 500 }), 2_000)
        check(isRefusal(error, 'ttlMs'), `ttlMs ${ttlMs} was not refused by name: ${error}`)
      }
      check(net.calls.length === 0, 'a command was sent for a ttl that cannot be right')
    },
  },
  {
    id: 'C01',
    title: 'a fraction of a ttl is rounded up, and that is what the store keeps',
    naive: /keeps 1234.5 ms/,
    async run({ client, memory }) {
      const lease = await client().acquire('k', { ttlMs: 1234.5 })
      const record = await memory.inspect('k')
      check(record?.ttlMs === 1235, `the store keeps ${record?.ttlMs} ms`)
      await lease.release()
    },
  },
  ...(
    [
      [40 * DAY_MS, /gave up its wait at once/],
      [100 * DAY_MS, /3000 renewals within 3 s/],
      [INT_MAX, /timers left behind/],
      [INT_MAX + 1, /gave up its wait at once/],
      [2 * (INT_MAX + 1), /3000 renewals within 3 s/],
    ] as const
  ).map(
    ([ms, naive]): ClientCase => ({
      id: 'C02',
      title: `a ttl and a wait of ${ms} ms: no burst of renewals, no time-out at once`,
      naive,
      async run({ client, net, advance }) {
        const lease = await client().acquire('k', { ttlMs: ms })
        let ended = false
        const controller = new AbortController()
        const wait = client().acquire('k', { waitMs: ms, signal: controller.signal })
        wait
          .catch(() => {})
          .finally(() => {
            ended = true
          })
        await advance(3_000)
        const renewals = net.callsOf('renew').length
        check(renewals === 0, `${renewals} renewals within 3 s`)
        check(!ended, 'gave up its wait at once')
        check(lease.held, 'the lease was lost within 3 s')
        controller.abort()
        await advance(1_000)
        check(ended, 'did not hear the signal in the middle of its wait')
        await lease.release()
        await advance(1_000)
        check((await net.inspect('k'))?.state === 'free', 'left behind a lease')
        check(timersLeft() === 0, `${timersLeft()} timers left behind, one of them for the rest of its wait`)
      },
    }),
  ),
  {
    id: 'C04',
    title: 'a wait of 0 is exactly one attempt: a free lease is taken, a held one refused at once',
    naive: /a free lease was not taken/,
    async run({ client, net, outcome }) {
      const { error } = await outcome(client().acquire('free', { waitMs: 0 }), 1_000)
      check(error === undefined, `a free lease was not taken: ${error}`)
      check(net.callsOf('acquire').length === 1, 'it took more than one attempt')
      const refused = await outcome(client().acquire('free', { waitMs: 0 }), 10)
      check(refused.error?.message.includes('held by'), `a held lease was not refused at once: ${refused.error}`)
      check(net.callsOf('acquire').length === 2, 'it took more than one attempt')
    },
  },
  {
    id: 'C04',
    title: 'nonsense for a wait is refused by name',
    naive: /waitMs -1 was not refused by name/,
    async run({ client, outcome }) {
      for (const waitMs of [-1, Number.NaN, null, '500'] as number[]) {
        const { error } = await outcome(client().acquire('k', { waitMs }), 2_000)
        check(isRefusal(error, 'waitMs'), `waitMs ${waitMs} was not refused by name: ${error}`)
      }
    },
  },
  {
    id: 'C04',
    title: 'an endless wait, and one of 40 days, end with the release; an endless one obeys its signal',
    naive: /gave up/,
    async run({ client, advance, outcome }) {
      for (const waitMs of [Number.POSITIVE_INFINITY, 40 * DAY_MS, undefined]) {
        const lease = await client().acquire('k')
        const next = client().acquire('k', waitMs === undefined ? {} : { waitMs })
        next.catch(() => {})
        await advance(300)
        await lease.release()
        const { error, ...got } = await outcome(next, 2_000)
        check(error === undefined, `a wait of ${waitMs} gave up: ${error}`)
        if ('value' in got) await got.value.release()
      }
      await client().acquire('k')
      const controller = new AbortController()
      const endless = client().acquire('k', { waitMs: Number.POSITIVE_INFINITY, signal: controller.signal })
      endless.catch(() => {})
      await advance(60_000)
      const why = new Error('enough')
      controller.abort(why)
      const { error } = await outcome(endless, 100)
      check(error === why, `an endless wait did not end with the reason of its signal: ${error}`)
    },
  },
  {
    id: 'C06',
    title: 'a name is refused before any command, or works as it is, whatever the store',
    naive: /"" was not refused/,
    async run({ client, net, memory, outcome }) {
      const leases = client()
      for (const key of ['', 'a\0b', '\ud83d', 'x'.repeat(513), 'é'.repeat(257), 'x'.repeat(5_000), undefined, null]) {
        const { error } = await outcome(leases.acquire(key as string, { waitMs: 100 }), 1_000)
        check(isRefusal(error, 'key'), `${JSON.stringify(key)} was not refused: ${error}`)
      }
      check(net.calls.length === 0, 'a command was sent for a name that cannot be one')
      const good = [' ', 'a b', 'user:42', 'a.b.*.>', '{', '}{a', '{}a', '{a}b{c}', 'é'.repeat(33), '😀', 'a\nb']
      const all = [...good, 'x'.repeat(64), 'x'.repeat(65), 'x'.repeat(256), 'x'.repeat(512)]
      const held = await Promise.all(all.map((key) => leases.acquire(key)))
      for (const [i, lease] of held.entries()) {
        check(lease.key === all[i] && (await memory.inspect(lease.key))?.state === 'held', `${lease.key} is not held`)
        await lease.renew()
        await lease.release()
      }
    },
  },
]

/** Timers of the runner's clock that are still set. */
let timersLeft = () => 0
export function countTimersBy(count: () => number): void {
  timersLeft = count
}
