// Every verb, with its request done and its reply lost in each way that an API server and a network have (C08, C49).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemRandom } from '../../src/lease/random.js'
import type { LeaseStore } from '../../src/store/contract.js'
import { kubernetesStore } from '../../src/stores/kubernetes/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { waitUntil } from '../redis/servers.js'
import { type Fault, KubernetesServer } from '../servers/kubernetes.js'
import { clientOf } from './harness.js'

let server: KubernetesServer
let client: ReturnType<typeof clientOf>
beforeAll(async () => {
  server = await KubernetesServer.start()
  client = clientOf(server)
  // The first grant of a new name takes its time: of all at once.
  pool.push(...(await Promise.all(Array.from({ length: 40 }, make))))
}, 60_000)
afterAll(() => server?.stop())

const open = (clock?: VirtualClock): LeaseStore =>
  kubernetesStore(client.api, { namespace: 'default', ...(clock === undefined ? {} : { clock }) })

let keys = 0
const leaseOf = (key: string) => server.objects.get('default', key)
const holderOf = (key: string) => leaseOf(key)?.spec?.holderIdentity ?? ''

/** A Lease that one claim holds, and the next waits for. */
async function make() {
  const key = `lost-${++keys}`
  const [mine, next] = [0, 1].map(() => ({ key, claim: systemRandom.claim(), holder: 'pod', ttlMs: 60_000 }))
  if (mine === undefined || next === undefined) throw new Error('two claims')
  const far = open()
  const { token } = (await far.acquire(mine)) as { token: number }
  return { key, far, mine: { ...mine, token }, next, version: leaseOf(key)?.metadata.resourceVersion }
}
type Held = Awaited<ReturnType<typeof make>>
const pool: Held[] = []
function held(): Held {
  const at = pool.pop()
  if (at === undefined) throw new Error('more Leases are needed')
  return at
}

interface Verb {
  readonly verb: Fault['verb']
  /** What is asked, and again when the first answer did not come. */
  ask(store: LeaseStore, at: Held, timeoutMs?: number): Promise<unknown>
  /** What the one that asks is told in the end, be it at once or when it asks again. */
  told(at: Held): object | undefined
  /** What stands there then. */
  stands(at: Held): object
}

const call = (timeoutMs?: number) => (timeoutMs === undefined ? undefined : { timeoutMs })

const VERBS: Record<string, Verb> = {
  'acquire, of a lease that is passed on': {
    verb: 'update',
    ask: (store, { mine, next }, timeoutMs) => store.acquire({ ...next, replaces: mine.claim }, call(timeoutMs)),
    told: ({ mine }) => ({ is: 'granted', token: mine.token + 1, replaced: true }),
    stands: ({ next, mine }) => ({ state: 'held', claim: next.claim, token: mine.token + 1, changes: 2 }),
  },
  'acquire, repeated by the holder': {
    verb: 'update',
    ask: (store, { mine: { token: _, ...request } }, timeoutMs) => store.acquire(request, call(timeoutMs)),
    told: ({ mine }) => ({ is: 'granted', token: mine.token }),
    stands: ({ mine }) => ({ state: 'held', claim: mine.claim, token: mine.token, changes: 1 }),
  },
  renew: {
    verb: 'update',
    ask: (store, { mine }, timeoutMs) => store.renew([mine], call(timeoutMs)),
    told: () => [{ is: 'renewed' }],
    stands: ({ mine }) => ({ state: 'held', claim: mine.claim, token: mine.token, changes: 1 }),
  },
  release: {
    verb: 'update',
    ask: (store, { mine }, timeoutMs) => store.release(mine, call(timeoutMs)),
    told: () => ({ is: 'released' }),
    stands: ({ mine }) => ({ state: 'free', token: mine.token }),
  },
  withdraw: {
    verb: 'update',
    ask: (store, { key, mine }, timeoutMs) => store.withdraw(key, mine.claim, call(timeoutMs)),
    told: () => undefined,
    stands: ({ mine }) => ({ state: 'free', token: mine.token }),
  },
  revoke: {
    verb: 'update',
    ask: (store, { key }, timeoutMs) => store.revoke(key, {}, call(timeoutMs)),
    told: ({ mine }) => ({ claim: mine.claim, token: mine.token }),
    stands: ({ mine }) => ({ state: 'held', claim: mine.claim, revoked: true }),
  },
  inspect: {
    verb: 'get',
    ask: (store, { key }, timeoutMs) => store.inspect(key, call(timeoutMs)),
    told: ({ mine }) => ({ state: 'held', claim: mine.claim, token: mine.token }),
    stands: ({ mine }) => ({ state: 'held', claim: mine.claim, token: mine.token, changes: 1 }),
  },
}

/** What was told, by what was expected of it: nothing is nothing. */
function expectTold(told: unknown, expected: object | undefined) {
  if (expected === undefined) expect(told).toBeUndefined()
  else expect(told).toMatchObject(expected)
}

describe.each(Object.entries(VERBS))('%s', (_, { verb, ask, told, stands }) => {
  it.each(['applied', 'late', 'lost'] as const)('%s: has its effect once, and is told', async (is) => {
    const at = held()
    server.fault({ verb, is })
    const first = await ask(open(), at).catch((error: unknown) => error)
    // What only reads is not asked again by the store: the client does that.
    if (verb === 'get' && first instanceof Error) {
      expect(first).toMatchObject({ code: 'STORE_ERROR' })
      expectTold(await ask(open(), at), told(at))
    } else expectTold(first, told(at))
    expect(server.late).toHaveLength(is === 'late' ? 1 : 0) // the fault was met
    for (const late of server.late.splice(0)) if (verb !== 'get') expect(late).toThrow(/has been modified/)
    expect(await at.far.inspect(at.key)).toMatchObject(stands(at))
    server.heal()
  })

  it('hang: fails when its time is over, a write with outcome unknown, and its repeat finds its own', async () => {
    const at = held()
    const clock = new VirtualClock()
    const store = open(clock)
    const asked = server.requests.length
    server.fault({ verb, is: 'hang' })
    const outcome = ask(store, at, 2_000).catch((error: unknown) => error)
    await waitUntil('it is done', () =>
      verb === 'get'
        ? server.requests.slice(asked).includes(`get ${at.key}`)
        : leaseOf(at.key)?.metadata.resourceVersion !== at.version,
    )
    await clock.advance(2_000)
    // A read does nothing, whether its answer comes or not.
    expect(await outcome).toMatchObject({ code: 'STORE_ERROR', outcome: verb === 'get' ? 'none' : 'unknown' })
    expectTold(await ask(store, at), told(at))
    expect(await at.far.inspect(at.key)).toMatchObject(stands(at))
    server.heal()
  })
})

it('a creation whose reply is lost is read back: nobody else has it, and nothing is created twice', async () => {
  for (const is of ['applied', 'late', 'lost'] as const) {
    const key = `lost-${++keys}`
    const mine = { key, claim: systemRandom.claim(), holder: 'pod', ttlMs: 60_000 }
    server.fault({ verb: 'create', is })
    expect(await open().acquire(mine)).toMatchObject({ is: 'granted' })
    expect(server.late).toHaveLength(is === 'late' ? 1 : 0)
    for (const late of server.late.splice(0)) expect(late).toThrow(/already exists/)
    expect(holderOf(key)).toBe(`pod_${mine.claim}`)
    expect(leaseOf(key)?.spec).toMatchObject({ leaseTransitions: 1 })
    server.heal()
  }
})

it('what is freed by force with its reply lost is free, and the one that held it is told', async () => {
  for (const is of ['applied', 'late', 'lost'] as const) {
    const at = held()
    server.fault({ verb: 'update', is })
    expect(await open().revoke(at.key, { force: true })).toMatchObject({ state: 'held', claim: at.mine.claim })
    expect(await open().revoke(at.key, { force: true })).toBeNull()
    expect(server.late).toHaveLength(is === 'late' ? 1 : 0)
    for (const late of server.late.splice(0)) expect(late).toThrow(/has been modified/)
    expect(await at.far.inspect(at.key)).toMatchObject({ state: 'free', token: at.mine.token })
    expect(await at.far.renew([at.mine])).toMatchObject([{ is: 'lost', reason: 'revoked' }])
    server.heal()
  }
})
