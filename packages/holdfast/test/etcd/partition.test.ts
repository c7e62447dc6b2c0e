// Three members, and the network between them cut: who is cut off still answers its clients, and must not tell them what it cannot know.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { etcdStore } from '../../src/stores/etcd/index.js'
import { EtcdCluster, waitUntil } from './servers.js'

describe('etcd, three members, some of them cut off', () => {
  let cluster: EtcdCluster
  beforeAll(async () => {
    cluster = await EtcdCluster.start({ cuttable: true })
  }, 120_000)
  afterEach(() => cluster?.heal())
  afterAll(() => cluster?.stop())

  const ask = (key: string, claim: string) => ({ key, claim, holder: claim, ttlMs: 600_000 })
  const at = (...urls: string[]) => etcdStore({ endpoints: urls })
  const errorOf = (work: Promise<unknown>) =>
    work.then(
      (answer) => answer,
      (error: unknown) => error,
    )
  const again = <Answer>(what: string, work: () => Promise<Answer>) =>
    waitUntil(what, () => work().catch(() => undefined), 60_000)

  it('C33, C45: a leader that is cut off grants nothing and says "held" of nothing; the others go on, and hold what was held', async () => {
    const leader = await cluster.leader()
    const others = cluster.urls.filter((url) => url !== leader.url)
    const [lone, rest] = [at(leader.url), at(...others)]
    const client = createLeases({ store: at(leader.url, ...others), ttlMs: 600_000, callTimeoutMs: 2_000 })
    const lease = await again('a lease', () => client.acquire('held'))
    cluster.cutOff(leader)
    const told = ['held', 'free'].flatMap((key) => [
      errorOf(lone.acquire(ask(key, 'x'), { timeoutMs: 2_000 })),
      errorOf(lone.inspect(key, { timeoutMs: 2_000 })),
    ])
    for (const error of await Promise.all(told)) expect(error).toBeInstanceOf(StoreError)
    const granted = await again('a grant', () => rest.acquire(ask('free', 'y')))
    expect(granted).toMatchObject({ is: 'granted' })
    await waitUntil(
      'a renewal',
      () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      60_000,
    )
    expect(lease.held).toBe(true)
    const refused = await again('an answer', () => rest.acquire(ask('held', 'y')))
    expect(refused).toMatchObject({ is: 'held', token: lease.token })

    cluster.heal()
    const answer = await again('an answer', () => lone.acquire(ask('free', 'x')))
    expect(answer).toMatchObject({ is: 'held', holder: 'y', token: granted.token })
    await lease.release()
    await client.close()
    await lone.close()
    await rest.close()
  }, 180_000)

  it('C33: a follower that is cut off costs one time-out: the next endpoint answers', async () => {
    const leader = await cluster.leader()
    const follower = cluster.nodes.find((node) => node !== leader)
    if (follower === undefined) throw new Error('no follower')
    const store = at(follower.url, ...cluster.urls.filter((url) => url !== follower.url))
    cluster.cutOff(follower)
    expect(await errorOf(store.acquire(ask('follower', 'a'), { timeoutMs: 1_000 }))).toBeInstanceOf(StoreError)
    expect(await again('a grant', () => store.acquire(ask('follower', 'a')))).toMatchObject({ is: 'granted' })
    cluster.heal()
    const back = at(follower.url)
    const answer = await again('an answer', () => back.acquire(ask('follower', 'b')))
    expect(answer).toMatchObject({ is: 'held', holder: 'a' })
    await store.close()
    await back.close()
  }, 120_000)

  it('C33, C45: where no two hear each other nobody is granted anything, nothing is "held", and the holder stops in time', async () => {
    const client = createLeases({ store: at(...cluster.urls) })
    const lease = await again('a lease', () => client.acquire('lost', { ttlMs: 6_000 }))
    cluster.cutOff(...cluster.nodes)
    const asked = cluster.urls.flatMap((url) =>
      ['lost', 'other'].map(async (key) => {
        const store = at(url)
        const error = await errorOf(store.acquire(ask(key, 'x'), { timeoutMs: 3_000 }))
        await store.close()
        return error
      }),
    )
    for (const error of await Promise.all(asked)) expect(error).toBeInstanceOf(StoreError)
    await waitUntil('the loss', () => lease.signal.aborted, 30_000)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    cluster.heal()
    const next = await again('the next grant', () => client.acquire('lost', { waitMs: 20_000 }))
    expect(next.token).toBeGreaterThan(lease.token)
    await next.release()
    await client.close()
  }, 180_000)
})
