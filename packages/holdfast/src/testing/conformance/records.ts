// What a store tells about its keys: true, complete, and plain data (G13).
import type { ConformanceCase } from './case.js'
import { check, equal, has } from './check.js'

/** 4 KiB as JSON, with all that JSON can carry. */
const META = { text: 'ä "quoted" \u{1F600} \n', list: [1, -0.5, true, null, { deep: [[]] }], filler: '' }
const FULL_META = { ...META, filler: 'm'.repeat(4_096 - new TextEncoder().encode(JSON.stringify(META)).length) }

export const records: readonly ConformanceCase[] = [
  {
    id: 'G13-record-of-a-held-key',
    guarantee: 'G13',
    title: 'inspect tells who holds a key, since when, and for how long',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      equal(await w.inspect(), null, 'the record of a key never seen')
      const grant = await w.granted(a)
      const fields = { key: w.key, state: 'held', holder: w.holder(a), claim: a, token: grant.token, changes: 1 }
      has(await w.inspect(), { ...fields, revoked: false, meta: null, waiters: [] }, 'the record')
      await w.passMs(w.ttlMs)
      const record = await w.inspect()
      check(record !== null, 'the record should be there')
      const grainMs = w.store.capabilities.ttlMsGrain
      check(record.ttlMs >= w.longMs, `ttlMs should be at least ${w.longMs}, but is ${record.ttlMs}`)
      check(
        record.remainingMs > w.longMs / 2 && record.remainingMs <= grant.ttlMs - w.ttlMs + grainMs,
        `remainingMs should be at most ${grant.ttlMs - w.ttlMs}, but is ${record.remainingMs}`,
      )
      check(record.heldMs >= w.ttlMs - grainMs, `heldMs should be at least ${w.ttlMs}, but is ${record.heldMs}`)
    },
  },
  {
    id: 'G13-record-of-a-released-key',
    guarantee: 'G13',
    title: 'inspect tells that a key was released, and remembers its token and its last holder',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const grant = await w.granted(a)
      await w.freed(a)
      const fields = { key: w.key, state: 'free', holder: w.holder(a), token: grant.token, remainingMs: 0, heldMs: 0 }
      has(await w.inspect(), fields, 'the record')
    },
  },
  {
    id: 'G13-record-of-an-expired-key',
    guarantee: 'G13',
    title: 'inspect tells that an expired key is free, although nobody came for it',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.expire(grant)
      has(await w.inspect(), { state: 'free', token: grant.token, remainingMs: 0, heldMs: 0 }, 'the record')
      equal(await w.listed(), [], 'the keys listed as held')
    },
  },
  {
    id: 'G13-remaining-is-an-upper-bound',
    guarantee: 'G13',
    title: 'what a refusal says is left is no less than what is left, and shrinks as time passes',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      const grant = await w.granted(a)
      // Not for long: who shares something with the holder may prolong it by asking.
      await w.passMs(w.ttlMs / 2)
      const held = await w.refused(b, 'held')
      // Of a quorum's nodes some were reached after the grant was certain, and they may be those that answer now.
      const most = grant.ttlMs - 0.4 * w.ttlMs + w.store.capabilities.ttlMsGrain
      check(held.remainingMs <= most, `remainingMs should be at most ${most}, but is ${held.remainingMs}`)
      await w.withdraw(a)
      await w.granted(b, { ttlMs: w.ttlMs })
      const short = await w.refused(c, 'held')
      await w.passMs(short.remainingMs + w.store.capabilities.ttlMsGrain)
      await w.granted(c)
    },
  },
  {
    id: 'G13-changes-are-counted',
    guarantee: 'G13',
    title: 'a record counts how often the key changed hands',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.granted(b, { replaces: a })
      await w.refused(c, 'held')
      await w.freed(b)
      await w.granted(c)
      equal((await w.inspect())?.changes, 3, 'the number of changes of hands')
    },
  },
  {
    id: 'G13-inspecting-changes-nothing',
    guarantee: 'G13',
    title: 'inspect and list neither end nor lengthen a lease, and hold none',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const look = async (key: string) => {
        await w.inspect({ key })
        await w.listed()
      }
      const long = `${w.key}long`
      const kept = await w.granted(a, { key: long })
      for (let count = 0; count < 3; count++) await look(long)
      await w.untouched(a, kept, { key: long })

      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await look(w.key)
      await w.passMs(grant.ttlMs / 2)
      await look(w.key)
      await w.passMs(grant.ttlMs / 2 + w.store.capabilities.ttlMsGrain)
      await look(w.key)
      await w.listed({ free: true })
      await w.granted(b)
    },
  },
  {
    id: 'G13-meta-comes-back',
    guarantee: 'G13',
    title: 'meta of 4 KiB comes back as it was given, and goes with its lease',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a, { meta: FULL_META })
      equal((await w.inspect())?.meta, FULL_META, 'meta')
      equal((await w.renew(a)).is, 'renewed', 'the renewal')
      equal((await w.inspect())?.meta, FULL_META, 'meta after a renewal')
      await w.freed(a)
      await w.granted(b)
      equal((await w.inspect())?.meta, null, 'meta of the next lease')
    },
  },
  {
    id: 'G13-list-gives-what-is-held',
    guarantee: 'G13',
    title: 'list gives the keys that are held, also free ones when asked, in the order of their text',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const key = (name: string) => `${w.key}${name}`
      for (const name of ['b', 'a', 'B', 'c', '\uFFFD', '\u{1F600}', 'ä', 'aa']) await w.granted(a, { key: key(name) })
      await w.freed(a, { key: key('b') })
      const inOrder = ['B', 'a', 'aa', 'c', 'ä', '\uFFFD', '\u{1F600}'].map(key)
      equal(await w.listed(), inOrder, 'the keys that are held')
      equal(await w.listed({ free: true }), [...inOrder.slice(0, 3), key('b'), ...inOrder.slice(3)], 'all keys')
      for await (const record of w.store.list({ prefix: key('c') })) {
        has(record, { key: key('c'), state: 'held', holder: w.holder(a), claim: a }, 'the record that list gives')
      }
    },
  },
  {
    id: 'G13-prefix-is-no-pattern',
    guarantee: 'G13',
    title: 'the prefix of list is taken letter by letter (C06)',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const key = (name: string) => `${w.key}${name}`
      const all = ['a%b', 'axb', 'a_b', 'a*b', 'a[x]b', 'A%b', 'b\u{10FFFF}c', 'b\u{10FFFF}\u{10FFFF}']
      for (const name of all) await w.granted(a, { key: key(name) })
      for (const prefix of ['a%', 'a_', 'a*', 'a[', 'A', 'b\u{10FFFF}', 'b\u{10FFFF}\u{10FFFF}', 'ax', 'x']) {
        const expected = all.filter((name) => name.startsWith(prefix)).map(key)
        equal(
          (await w.listed({ prefix: key(prefix) })).sort(),
          expected.sort(),
          `the keys under ${JSON.stringify(prefix)}`,
        )
      }
    },
  },
  {
    id: 'G13-answers-are-plain-data',
    guarantee: 'G13',
    title: 'every answer is plain data: it reads the same after a journey as JSON (C54)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const travels = (value: unknown, what: string) =>
        equal(JSON.parse(JSON.stringify(value)), value, `${what} after a journey as JSON`)
      travels(await w.granted(a, { meta: { n: 1 } }), 'the grant')
      travels(
        await w.refused(b, 'held', w.store.capabilities.fair ? { queue: { pollMs: w.longMs } } : {}),
        'the refusal',
      )
      travels(await w.renew(a), 'the renewal')
      travels(await w.inspect(), 'the record')
      for await (const record of w.store.list({ prefix: w.key })) travels(record, 'the record that list gives')
      travels(await w.store.revoke(w.key), 'the record that revoke gives')
      travels(await w.release(a), 'the release')
    },
  },
  {
    id: 'G13-waiters-are-shown',
    guarantee: 'G13',
    title: 'inspect and list tell who waits, and for how long (C11)',
    aboutFault: true,
    needs: ['fair'],
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', { queue: { pollMs: w.longMs } })
      await w.passMs(w.ttlMs)
      await w.refused(b, 'held', { queue: { pollMs: w.longMs } })
      await w.refused(c, 'held', { queue: { pollMs: w.longMs } })
      const [first, second, third] = (await w.inspect())?.waiters ?? []
      check(
        first?.holder === w.holder(b) && second?.holder === w.holder(c) && third === undefined,
        'b and c should be shown in line',
      )
      const leastMs = w.ttlMs - w.store.capabilities.ttlMsGrain
      check(first.waitedMs >= leastMs, `b should have waited for ${w.ttlMs} ms, but has for ${first.waitedMs}`)
      await w.freed(a)
      equal(await w.listed(), [w.key], 'the keys listed: free, but waited for')
    },
  },
]
