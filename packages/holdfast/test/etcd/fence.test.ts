// The fence on a real etcd: a stale write is refused, a plain one is not (C17's register, fenced and plain).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { StaleTokenError } from '../../src/lease/errors.js'
import { etcdFence, etcdStore } from '../../src/stores/etcd/index.js'
import { EtcdServer, etcdctl, post } from './servers.js'

describe('etcdFence', () => {
  let server: EtcdServer
  beforeAll(async () => {
    server = await EtcdServer.start()
  }, 90_000)
  afterAll(() => server?.stop())

  const grant = (token: number, claim = 'a') => ({ key: 'invoice', token, claim, holder: 'h' })
  const base64 = (text: string) => btoa(text)
  const value = (key: string) => etcdctl(server.url, 'get', '--print-value-only', key)

  it('G7: admits a bigger token and the same grant again, and refuses a smaller one and another claim', async () => {
    const fence = etcdFence({ endpoints: [server.url] })
    await fence.put(grant(9), 'register', 'nine')
    await fence.put(grant(9), 'register', 'nine again')
    await fence.put(grant(10), 'register', 'ten')
    await expect(fence.put(grant(9), 'register', 'late')).rejects.toThrow(StaleTokenError)
    await expect(fence.put(grant(10, 'b'), 'register', 'twin')).rejects.toMatchObject({ token: 10, admitted: 10 })
    await expect(fence.delete(grant(9), 'register')).rejects.toMatchObject({ code: 'STALE_TOKEN', admitted: 10 })
    await etcdctl(server.url, 'put', 'plain', 'ten')
    await etcdctl(server.url, 'put', 'plain', 'late') // the control: nothing stops an old holder here
    expect([await value('register'), await value('plain')]).toEqual(['ten', 'late'])
    await fence.delete(grant(11), 'register')
    expect(await value('register')).toBe('')
  })

  it('G7: tokens are compared as numbers, and resources are apart', async () => {
    const fence = etcdFence({ endpoints: [server.url] })
    for (const token of [9, 10, 99, 100, Number.MAX_SAFE_INTEGER]) {
      await fence.put(grant(token), 'n', String(token), { resource: 'numbers' })
    }
    await expect(fence.put(grant(1e15), 'n', 'late', { resource: 'numbers' })).rejects.toThrow(StaleTokenError)
    await fence.put(grant(1), 'n', 'other', { resource: 'others' })
    for (const wrong of [0, 1.5, '7', undefined]) {
      await expect(fence.put({ ...grant(1), token: wrong as number }, 'n', 'x')).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      })
    }
  })

  it("G7: the application's own transaction keeps its own verdict", async () => {
    const fence = etcdFence({ endpoints: [server.url] })
    const write = (expected: string) => ({
      compare: [{ key: base64('state'), target: 'VALUE', result: 'EQUAL', value: base64(expected) }],
      success: [{ request_put: { key: base64('state'), value: base64('done') } }],
      failure: [{ request_range: { key: base64('state') } }],
    })
    await fence.put(grant(20), 'state', 'open', { resource: 'own' })
    const missed = await fence.transaction(grant(20), write('closed'), { resource: 'own' })
    expect(missed).toMatchObject({ succeeded: false, responses: [{ response_range: { count: '1' } }] })
    expect(await fence.transaction(grant(20), write('open'), { resource: 'own' })).toMatchObject({ succeeded: true })
    const body = fence.statement(grant(19), write('done'), { resource: 'own' })
    const answer = await post(server.url, '/v3/kv/txn', body)
    expect(() => fence.verify(grant(19), answer, { resource: 'own' })).toThrow(StaleTokenError)
  })

  it('G7: what is no transaction is refused before it is sent, and what is no answer to one admits nobody and refuses nobody', async () => {
    const fence = etcdFence({ endpoints: [server.url] })
    for (const none of [undefined, null, 'put', { success: {} }]) {
      expect(() => fence.statement(grant(1), none as never)).toThrow(/^txn must be a transaction/)
      await expect(fence.transaction(grant(1), none as never)).rejects.toMatchObject({ option: 'txn' })
    }
    for (const none of [undefined, null, {}, { succeeded: true }, { error: 'etcdserver: no leader', code: 14 }])
      expect(() => fence.verify(grant(1), none)).toThrow(/^answer must be what etcd answers/)
    // One that changes nothing is one: admitted, and as told.
    const answer = await post(server.url, '/v3/kv/txn', fence.statement(grant(1), {}, { resource: 'empty' }))
    expect(fence.verify(grant(1), answer, { resource: 'empty' })).toEqual({ succeeded: true, responses: [] })
  })

  it('G1: a commit that depends on still holding', async () => {
    const store = etcdStore({ endpoints: [server.url] })
    const fence = etcdFence({ endpoints: [server.url] })
    const request = { key: 'owned', claim: 'a', holder: 'h', ttlMs: 10_000 }
    const first = await store.acquire(request)
    const held = { key: 'owned', claim: 'a', holder: 'h', token: first.token }
    const commit = (one: typeof held) =>
      post(server.url, '/v3/kv/txn', {
        compare: fence.whileHeld(one),
        success: [{ request_put: { key: base64('owned data'), value: base64(one.claim) } }],
      })
    expect(await commit(held)).toMatchObject({ succeeded: true })
    expect(await store.renew([{ key: 'owned', claim: 'a', ttlMs: 60_000 }])).toMatchObject([{ is: 'renewed' }])
    expect(await commit(held)).toMatchObject({ succeeded: true }) // a renewal changes no token
    expect((await commit({ ...held, token: held.token - 1 })).succeeded).toBeUndefined()
    await store.release(held)
    expect((await commit(held)).succeeded).toBeUndefined()
    await store.acquire({ ...request, claim: 'b' })
    expect((await commit(held)).succeeded).toBeUndefined()
    await store.close()
  })
})
