// Renewal under faults, pauses of the host, and the end of a lease (C15, C18, C20, C22, C26, C29).
import { type ClientCase, check } from './case.js'

export const renewalCases: ClientCase[] = [
  {
    id: 'C15',
    title: 'a renewal on its way at the release is no loss, and no renewal follows',
    naive: /a lease that was given back was reported lost/,
    async run({ client, net, advance, outcome }) {
      const leases = client()
      net.always('renew', { delayBeforeMs: 200 })
      for (let round = 1; round <= 50; round++) {
        const lease = await leases.acquire('k', { ttlMs: 2_000 })
        let loss: unknown
        lease.signal.addEventListener('abort', () => {
          loss = lease.signal.reason
        })
        for (let i = 0; net.callsOf('renew').length < round && i < 200; i++) await advance(10)
        check(net.callsOf('renew').length === round, 'no renewal was sent')
        const { error } = await outcome(lease.release(), 1_000)
        check(error === undefined, `the release failed: ${error}`)
        await advance(500)
        const reason = (loss as { reason?: string } | undefined)?.reason
        check(loss === undefined || reason === 'released', `a lease that was given back was reported lost: ${loss}`)
      }
      await advance(10_000)
      check(net.callsOf('renew').length === 50, 'a renewal followed the release')
    },
  },
  {
    id: 'C15',
    title: 'an acquire that was aborted after the store had applied it leaves nothing held',
    naive: /the key is still held by nobody/,
    async run({ client, net, memory, advance }) {
      net.next('acquire', { delayAfterMs: 300 })
      const controller = new AbortController()
      const given = client().acquire('k', { ttlMs: 60_000, signal: controller.signal })
      given.catch(() => {})
      await advance(100)
      controller.abort()
      await advance(1_000)
      check((await memory.inspect('k'))?.state === 'free', 'the key is still held by nobody')
      await advance(60_000)
      check(net.callsOf('renew').length === 0, 'what nobody wanted was renewed')
    },
  },
  {
    id: 'C15',
    title: 'a release whose reply, or request, was lost is followed by no renewal, and the key is free',
    naive: /no answer within/,
    async run({ client, net, memory, advance, outcome }) {
      for (const fault of [{ dropAfter: true }, { dropBefore: true }]) {
        const lease = await client().acquire('k', { ttlMs: 4_000 })
        net.next('release', fault)
        net.next('revoke', fault)
        const { error } = await outcome(lease.release(), 2_000)
        check(error === undefined, `the release failed: ${error}`)
        const sent = net.callsOf('renew').length
        await advance(20_000)
        check(net.callsOf('renew').length === sent, 'a renewal followed the release')
        check((await memory.inspect('k'))?.state === 'free', 'the key is still held')
      }
    },
  },
  ...[1, 2].flatMap((times) =>
    (['error', 'time-out', 'lost reply'] as const).map(
      (how): ClientCase => ({
        id: 'C18',
        title: `${times} renewal(s) in a row that end with: ${how}. The lease is kept, without a signal`,
        naive: how === 'lost reply' ? /in flight for ever/ : /the lease was lost by one blip/,
        async run({ client, net, advance }) {
          const lease = await client().acquire('k', { ttlMs: 3_000 })
          const faults = {
            error: { fail: new Error('reset') },
            'time-out': { dropBefore: true },
            'lost reply': { dropAfter: true },
          }
          net.next('renew', ...Array.from({ length: times }, () => faults[how]))
          await advance(15_000)
          check(lease.held && !lease.signal.aborted, 'the lease was lost by one blip')
          check(
            net.callsOf('renew').filter(({ state }) => state === 'waiting').length === 0,
            'a renewal is in flight for ever',
          )
          await lease.release()
        },
      }),
    ),
  ),
  {
    id: 'C18',
    title: 'an outage longer than the ttl ends the lease at its deadline; the next one of that key is renewed as ever',
    naive: /before its ttl was over/,
    async run({ client, net, advance }) {
      const leases = client()
      const lease = await leases.acquire('k', { ttlMs: 3_000 })
      let aborts = 0
      lease.signal.addEventListener('abort', () => aborts++)
      net.always('renew', { fail: new Error('down') })
      await advance(2_600)
      check(lease.held, 'the lease was lost by an outage that ended before its ttl was over')
      await advance(10_000)
      check(!lease.held && aborts === 1, `the loss was told ${aborts} times`)
      net.heal()
      const again = await leases.acquire('k', { ttlMs: 3_000 })
      await advance(15_000)
      check(again.held && again.token > lease.token, 'the next lease of that key was not renewed')
      await again.release()
    },
  },
  {
    id: 'C20',
    title: 'at most one renewal of a lease is in flight, however slow the store and whoever asks',
    naive: /[2-9] renewals of one lease in flight/,
    async run({ client, net, advance }) {
      const lease = await client().acquire('k', { ttlMs: 3_000, renewEveryMs: 100 })
      net.always('renew', { delayAfterMs: 350 })
      for (let passedMs = 0; passedMs < 10_000; passedMs += 50) {
        if (passedMs % 1_000 === 500) lease.renew().catch(() => {})
        await advance(50)
        const inFlight = net.callsOf('renew').filter(({ state }) => state === 'waiting').length
        check(inFlight <= 1, `${inFlight} renewals of one lease in flight`)
      }
      check(lease.held, 'the lease was lost')
      net.heal()
      await advance(1_000)
      await lease.release()
    },
  },
  {
    id: 'C20',
    title: "an old renewal's failure that comes after a newer success takes nothing away",
    naive: /an old failure ended a lease that was renewed since/,
    async run({ client, net, advance, outcome }) {
      const lease = await client().acquire('k', { ttlMs: 10_000, renew: false })
      net.next('renew', { delayBeforeMs: 3_000, fail: new Error('reset') })
      lease.renew().catch(() => {})
      await advance(2_500)
      await outcome(lease.renew(), 1_000)
      const leftMs = lease.remainingMs
      await advance(600)
      check(lease.held, 'an old failure ended a lease that was renewed since')
      check(lease.remainingMs > leftMs - 700, 'an old failure shortened the lease')
      await lease.release()
    },
  },
  {
    id: 'C22',
    title: 'the host sleeps for three ttls: at wake-up its lease is lost, and it says so before anything is sent',
    naive: /still believes after the host slept/,
    async run({ client, memory, net, advance, sleep }) {
      const lease = await client().acquire('k', { ttlMs: 10_000 })
      let told = false
      lease.signal.addEventListener('abort', () => {
        told = true
      })
      await advance(1_000)
      const sent = net.calls.length
      sleep(30_000)
      const next = await memory.acquire({ key: 'k', claim: 'n', holder: 'n', ttlMs: 60_000 })
      check(next.is === 'granted', 'the store did not let the next one in')
      check(!lease.held, 'still believes after the host slept past its ttl')
      check(told && lease.signal.aborted, 'the signal was not aborted')
      check(net.calls.length === sent, 'something was sent before the lease was called lost')
    },
  },
  {
    id: 'C26',
    title: 'a holder that overran its ttl neither releases nor prolongs the lease of the next',
    naive: /still believes after its ttl/,
    async run({ client, memory, advance, outcome }) {
      const lease = await client().acquire('k', { ttlMs: 1_000, renew: false })
      await advance(1_500)
      const next = await client().acquire('k', { ttlMs: 60_000, renew: false })
      const before = await memory.inspect('k')
      check(!lease.held, 'still believes after its ttl')
      const { error } = await outcome(lease.renew(), 1_000)
      check((error as { code?: string }).code === 'LEASE_LOST', `was not told that it lost the lease: ${error}`)
      const released = await outcome(lease.release(), 1_000)
      check(released.error === undefined, `its release threw: ${released.error}`)
      const after = await memory.inspect('k')
      check(after?.claim === next.grant.claim && after.token === next.token, "touched the next one's lease")
      check((after?.remainingMs ?? 0) <= (before?.remainingMs ?? 0), 'prolonged the lease of the next')
    },
  },
  {
    id: 'C26',
    title: 'the expiry falls into the release, and another gets in: its lease is left alone',
    naive: /freed the lease of the next/,
    async run({ client, net, memory, advance }) {
      const lease = await client().acquire('k', { ttlMs: 1_000, renew: false })
      await advance(800)
      net.hang('release')
      net.hang('revoke')
      lease.release().catch(() => {})
      await advance(400)
      const next = await client().acquire('k', { ttlMs: 60_000, renew: false })
      net.heal()
      await advance(1_000)
      const record = await memory.inspect('k')
      check(record?.state === 'held' && record.claim === next.grant.claim, 'freed the lease of the next')
    },
  },
  {
    id: 'C29',
    title: 'the lease expired before the work returned: the value is not lost, and the loss is told',
    naive: /the value is gone/,
    async run({ client, advance, outcome }) {
      const held = client().hold('k', { ttlMs: 1_000, renew: false }, async () => {
        await advance(2_000)
        return 42
      })
      const { error } = await outcome(held, 1_000)
      const { outcome: carried, reason } = error as { outcome?: { value?: unknown }; reason?: string }
      check(carried?.value === 42, `the value is gone: ${error}`)
      check(reason !== undefined, 'it was not told how the lease was lost')
    },
  },
  {
    id: 'C29',
    title: "the work throws and the release fails too: the work's very error comes through",
    naive: /another error took its place/,
    async run({ client, net, outcome }) {
      const mine = new Error('mine')
      const held = client().hold('k', {}, () => {
        net.always('any', { fail: new Error('down') })
        throw mine
      })
      const { error } = await outcome(held, 5_000)
      check(error === mine, `another error took its place: ${error}`)
    },
  },
  {
    id: 'C29',
    title: 'a release is bounded in time, whatever the wait was, and a second one is harmless',
    naive: /no answer within 3000 ms/,
    async run({ client, net, outcome }) {
      const waitMs = Number.POSITIVE_INFINITY
      const lease = await client().acquire('k', { waitMs: Math.min(waitMs, 30_000) })
      net.hang()
      const first = await outcome(lease.release(), 3_000)
      check(first.error === undefined, `the release threw: ${first.error}`)
      const second = await outcome(lease.release(), 3_000)
      check(second.error === undefined, `the second release threw: ${second.error}`)
    },
  },
]
