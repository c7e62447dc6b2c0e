// What the stand-in has in common with kube-apiserver 1.32, line by line.
import { request } from 'node:https'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitUntil } from '../redis/servers.js'
import { KubernetesServer } from './kubernetes.js'

let server: KubernetesServer
beforeAll(async () => {
  server = await KubernetesServer.start()
})
afterAll(() => server?.stop())

const LEASES = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
let names = 0
const fresh = () => `l${++names}`

interface Reply {
  code: number
  headers: Record<string, unknown>
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says
  body: any
}

function ask(
  method: string,
  path: string,
  body?: unknown,
  token: string | null = 'admin',
  contentType = 'application/json',
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
    const headers = {
      'Content-Length': String(Buffer.byteLength(text)),
      'Content-Type': contentType,
      ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
    }
    const sent = request(`${server.url}${path}`, { method, headers, ca: server.ca, agent: false }, (response) => {
      let answer = ''
      response.on('data', (part) => {
        answer += part
      })
      response.on('end', () =>
        resolve({
          code: response.statusCode ?? 0,
          headers: response.headers,
          body: answer.includes('\n')
            ? answer
                .trim()
                .split('\n')
                .map((line) => JSON.parse(line))
            : JSON.parse(answer || '[]'),
        }),
      )
    })
    sent.on('error', reject)
    sent.end(text)
  })
}

const create = (name: string, spec: object = {}, metadata: object = {}) =>
  ask('POST', LEASES, { metadata: { name, ...metadata }, spec })

describe('fields', () => {
  it.each(['2024-01-01T00:00:00.123456Z', '2024-01-01T00:00:00,120000Z', '2024-01-01T02:00:00.123456+02:00'])(
    'takes the time %s, and gives it back in UTC with six digits',
    async (renewTime) => {
      const { code, body } = await create(fresh(), { renewTime })
      expect(code).toBe(201)
      expect(body.spec.renewTime).toMatch(/^2024-01-01T00:00:00\.12\d{4}Z$/)
    },
  )

  it.each([
    '2024-01-01T00:00:00.123Z',
    '2024-01-01T00:00:00Z',
    '2024-01-01T00:00:00.1234567Z',
    '2024-01-01 00:00:00.123456Z',
    '2024-01-01t00:00:00.123456z',
    '2024-01-01T00:00:00.123456',
    '',
    5,
  ])('refuses the time %j with 400', async (renewTime) => {
    expect(await create(fresh(), { renewTime })).toMatchObject({ code: 400, body: { reason: 'BadRequest' } })
  })

  it('takes years from 0000 to 9999, and keeps zeros at the end', async () => {
    const spec = { renewTime: '0000-01-01T00:00:00.000000Z', acquireTime: '9999-12-31T23:59:59.100000Z' }
    expect((await create(fresh(), spec)).body.spec).toEqual(spec)
  })

  it('gives the creation in whole seconds', async () => {
    const { metadata } = (await create(fresh())).body
    expect(metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  })

  it('takes any holder, bounded by what etcd and a request take', async () => {
    for (const holderIdentity of ['x'.repeat(100_000), 'a\nb', 'a\0b', ''])
      expect((await create(fresh(), { holderIdentity })).body.spec).toEqual({ holderIdentity })
    const { code, body } = await create(fresh(), { holderIdentity: 'x'.repeat(1_600_000) })
    expect([code, body.reason, body.message]).toEqual([500, undefined, 'etcdserver: request is too large'])
    expect(await create(fresh(), { holderIdentity: 'x'.repeat(3_200_000) })).toMatchObject({
      code: 413,
      body: { reason: 'RequestEntityTooLarge' },
    })
  })

  it('needs neither apiVersion nor kind, and answers both', async () => {
    const { code, body } = await ask('POST', LEASES, { metadata: { name: fresh() } })
    expect([code, body.apiVersion, body.kind]).toEqual([201, 'coordination.k8s.io/v1', 'Lease'])
  })

  it("takes Go's zero time for none, and null, and no spec", async () => {
    expect((await create(fresh(), { renewTime: '0001-01-01T00:00:00.000000Z' })).body.spec).toEqual({})
    expect((await create(fresh(), { holderIdentity: null })).body.spec).toEqual({})
    const { code, body } = await ask('POST', LEASES, { metadata: { name: fresh() } })
    expect([code, body.spec]).toEqual([201, {}])
  })

  it('refuses durations and counts that are none', async () => {
    const literal = (text: string) =>
      ask('POST', LEASES, `{"metadata":{"name":"${fresh()}"},"spec":{"leaseDurationSeconds":${text}}}`)
    for (const text of ['1.5', '1.0', '"15"', '2147483648']) expect((await literal(text)).code, text).toBe(400)
    expect((await literal('2147483647')).code).toBe(201)
    const zero = await literal('0')
    expect(zero.code).toBe(422)
    expect(zero.body.message).toContain('spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0')
    const negative = await create(fresh(), { leaseTransitions: -1 })
    expect(negative.code).toBe(422)
    expect(negative.body.message).toContain('must be greater than or equal to 0')
  })

  it('warns of unknown fields, refuses them when strict, and drops those of a gate that is off', async () => {
    const { code, headers, body } = await create(fresh(), { foo: 1, strategy: 'x' })
    expect([code, headers.warning, body.spec]).toEqual([201, '299 - "unknown field \\"spec.foo\\""', {}])
    const strict = await ask('POST', `${LEASES}?fieldValidation=Strict`, {
      metadata: { name: fresh() },
      spec: { foo: 1 },
    })
    expect(strict.code).toBe(400)
  })

  it.each(['A', 'a_b', '-a', 'a..b', 'x'.repeat(254)])('refuses the name %s with 422', async (name) => {
    expect(await create(name)).toMatchObject({ code: 422, body: { reason: 'Invalid' } })
  })
})

describe('create', () => {
  it('of what exists is AlreadyExists: of sixteen at once one succeeds', async () => {
    const name = fresh()
    const codes = await Promise.all(Array.from({ length: 16 }, () => create(name)))
    expect(codes.filter(({ code }) => code === 201)).toHaveLength(1)
    expect(codes.filter(({ body }) => body.reason === 'AlreadyExists')).toHaveLength(15)
  })

  it('with a resourceVersion is 500 without a reason', async () => {
    const { code, body } = await create(fresh(), {}, { resourceVersion: '1' })
    expect([code, body.reason, body.message]).toEqual([
      500,
      undefined,
      'resourceVersion should not be set on objects to be created',
    ])
  })

  it('in a namespace that is missing is 404 for the namespace, in one that ends 403; a get there is a plain 404', async () => {
    const missing = LEASES.replace('default', 'missing')
    expect(await ask('POST', missing, { metadata: { name: 'a' } })).toMatchObject({
      code: 404,
      body: { details: { kind: 'namespaces' } },
    })
    expect(await ask('GET', `${missing}/a`)).toMatchObject({ code: 404, body: { details: { kind: 'leases' } } })
    server.objects.addNamespace('ending')
    const ending = server.objects.namespaces.get('ending')
    if (ending !== undefined) ending.terminating = true
    expect(await ask('POST', LEASES.replace('default', 'ending'), { metadata: { name: 'a' } })).toMatchObject({
      code: 403,
      body: { reason: 'Forbidden', details: { causes: [{ reason: 'NamespaceTerminating' }] } },
    })
  })
})

describe('update', () => {
  const put = (name: string, metadata: object, spec: object = {}) =>
    ask('PUT', `${LEASES}/${name}`, { metadata: { name, ...metadata }, spec })

  it('over the version read replaces the whole spec, may lower counts, and leaves them alone', async () => {
    const name = fresh()
    const { resourceVersion } = (await create(name, { leaseTransitions: 7, holderIdentity: 'a' })).body.metadata
    const { code, body } = await put(name, { resourceVersion }, { leaseTransitions: 3 })
    expect([code, body.spec]).toEqual([200, { leaseTransitions: 3 }])
    expect(body.metadata.resourceVersion).not.toBe(resourceVersion)
  })

  it('over another version is Conflict, before anything is validated; of sixteen at once one succeeds', async () => {
    const name = fresh()
    const { resourceVersion } = (await create(name)).body.metadata
    const all = await Promise.all(
      Array.from({ length: 16 }, (_, i) => put(name, { resourceVersion }, { holderIdentity: `h${i}` })),
    )
    expect(all.filter(({ code }) => code === 200)).toHaveLength(1)
    expect(all.filter(({ body }) => body.reason === 'Conflict')).toHaveLength(15)
    const late = await put(name, { resourceVersion }, { leaseDurationSeconds: 0 })
    expect(late.code).toBe(409)
    expect(late.body.message).toBe(
      `Operation cannot be fulfilled on leases.coordination.k8s.io "${name}": the object has been modified; please apply your changes to the latest version and try again`,
    )
    expect((await put(name, { resourceVersion: '999999' })).code).toBe(409)
  })

  it.each([undefined, '', '0'])('without a version (%j) is 422', async (resourceVersion) => {
    const name = fresh()
    await create(name)
    const { code, body } = await put(name, { resourceVersion })
    expect([code, body.message.includes('must be specified for an update')]).toEqual([422, true])
  })

  it('with a version that is none is 500, with a number 400', async () => {
    const name = fresh()
    await create(name)
    expect((await put(name, { resourceVersion: 'abc' })).code).toBe(500)
    expect((await put(name, { resourceVersion: 5 })).code).toBe(400)
  })

  it('with another uid is Conflict; of a missing Lease it creates, unless there is a uid', async () => {
    const name = fresh()
    const { resourceVersion } = (await create(name)).body.metadata
    const other = await put(name, { resourceVersion, uid: 'other' })
    expect([other.code, other.body.reason, other.body.message.includes('Precondition failed: UID')]).toEqual([
      409,
      'Conflict',
      true,
    ])
    expect((await put(fresh(), { resourceVersion: '5' })).code).toBe(201)
    expect(await put(fresh(), { uid: 'gone', resourceVersion: '5' })).toMatchObject({
      code: 409,
      body: { reason: 'Conflict' },
    })
  })

  it('under another name is 400; of the same object it changes no version and tells no watch', async () => {
    const name = fresh()
    const { body } = await create(name, { holderIdentity: 'a' })
    expect((await ask('PUT', `${LEASES}/${name}`, { ...body, metadata: { ...body.metadata, name: 'x' } })).code).toBe(
      400,
    )
    const before = server.objects.changes.length
    const same = await ask('PUT', `${LEASES}/${name}`, body)
    expect([same.code, same.body.metadata.resourceVersion]).toEqual([200, body.metadata.resourceVersion])
    expect(server.objects.changes).toHaveLength(before)
  })
})

describe('patch', () => {
  const MERGE = 'application/merge-patch+json'
  const patch = (name: string, body: unknown, type: string) => ask('PATCH', `${LEASES}/${name}`, body, 'admin', type)

  it('by merge without a version is unconditional, and over an old one Conflict', async () => {
    const name = fresh()
    const { resourceVersion } = (await create(name, { holderIdentity: 'a', leaseTransitions: 1 })).body.metadata
    const { code, body } = await patch(name, { spec: { holderIdentity: 'b' } }, MERGE)
    expect([code, body.spec]).toEqual([200, { holderIdentity: 'b', leaseTransitions: 1 }])
    expect(await patch(name, { metadata: { resourceVersion }, spec: { holderIdentity: 'c' } }, MERGE)).toMatchObject({
      code: 409,
      body: { reason: 'Conflict' },
    })
    expect((await patch(fresh(), { spec: {} }, MERGE)).code).toBe(404)
  })

  it('as JSON is no patch (415); a test that fails is 422; to apply creates', async () => {
    const name = fresh()
    await create(name, { holderIdentity: 'a' })
    expect((await patch(name, { spec: {} }, 'application/json')).code).toBe(415)
    const test = [{ op: 'test', path: '/spec/holderIdentity', value: 'b' }]
    expect((await patch(name, test, 'application/json-patch+json')).code).toBe(422)
    const apply = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: {}, spec: { holderIdentity: 'a' } }
    expect((await patch(fresh(), apply, 'application/apply-patch+yaml')).code).toBe(201)
  })
})

describe('rights by name', () => {
  it('match all but a POST; a PUT may create; a list or watch of that one name', async () => {
    const name = fresh()
    server.accounts.set('named', {
      user: 'named',
      verbs: ['get', 'list', 'watch', 'create', 'update'],
      resourceNames: [name],
    })
    const as = (method: string, path: string, body?: unknown) => ask(method, path, body, 'named')
    expect((await as('POST', LEASES, { metadata: { name } })).code).toBe(403)
    expect((await as('PUT', `${LEASES}/${name}`, { metadata: { name } })).code).toBe(201)
    expect((await as('GET', `${LEASES}/${name}`)).code).toBe(200)
    expect((await as('GET', `${LEASES}/other`)).code).toBe(403)
    expect((await as('GET', LEASES)).code).toBe(403)
    const one = await as('GET', `${LEASES}?fieldSelector=metadata.name%3D${name}`)
    expect([one.code, one.body.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)]).toEqual([
      200,
      [name],
    ])
    const watch = await as('GET', `${LEASES}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D${name}`)
    expect([watch.code, [watch.body].flat().map(({ type }) => type)]).toEqual([200, ['ADDED']])
    expect((await as('GET', `${LEASES}?watch=1&timeoutSeconds=1`)).code).toBe(403)
  })

  it('other fields cannot be selected by', async () => {
    expect((await ask('GET', `${LEASES}?fieldSelector=spec.holderIdentity%3Da`)).code).toBe(400)
  })

  it('a token that is gone is good for a while yet', async () => {
    server.accounts.set('going', { user: 'going', verbs: ['get'] })
    server.accounts.forget('going', 200)
    expect((await ask('GET', `${LEASES}/missing`, undefined, 'going')).code).toBe(404)
    await waitUntil('it is forgotten', async () => {
      const { code } = await ask('GET', `${LEASES}/missing`, undefined, 'going')
      return code === 401
    })
  })

  it('an account may ask what it may do', async () => {
    server.accounts.set('asker', { user: 'asker', verbs: ['get'] })
    const review = async (verb: string) => {
      const resourceAttributes = { verb, namespace: 'default', group: 'coordination.k8s.io', resource: 'leases' }
      const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
      return (await ask('POST', path, { spec: { resourceAttributes } }, 'asker')).body.status.allowed
    }
    expect([await review('get'), await review('create')]).toEqual([true, false])
  })
})

describe('delete, rights, reads', () => {
  it('delete honours preconditions', async () => {
    const name = fresh()
    await create(name)
    expect((await ask('DELETE', `${LEASES}/${name}`, { preconditions: { uid: 'x' } })).code).toBe(409)
    expect((await ask('DELETE', `${LEASES}/${name}`)).body).toMatchObject({ kind: 'Status', status: 'Success' })
    expect((await ask('DELETE', `${LEASES}/${name}`)).code).toBe(404)
  })

  it('nobody is anonymous (403), a bad token is 401, a missing right 403 also for what is missing', async () => {
    const nobody = await ask('GET', `${LEASES}/a`, undefined, null)
    expect([nobody.code, nobody.body.message.includes('User "system:anonymous" cannot get')]).toEqual([403, true])
    expect(await ask('GET', `${LEASES}/a`, undefined, 'bad')).toMatchObject({
      code: 401,
      body: { reason: 'Unauthorized' },
    })
    server.accounts.set('updater', { user: 'u', verbs: ['get', 'update'] })
    expect((await ask('GET', `${LEASES}/missing`, undefined, 'updater')).code).toBe(404)
    expect((await ask('POST', LEASES, { metadata: { name: 'a' } }, 'updater')).code).toBe(403)
    expect((await ask('GET', LEASES, undefined, 'updater')).code).toBe(403)
    expect((await ask('GET', `${LEASES}?watch=true`, undefined, 'updater')).body.kind).toBe('Status')
    expect((await ask('PUT', `${LEASES}/${fresh()}`, { metadata: {} }, 'updater')).code).toBe(403) // it would create
  })

  it('a list has items without kind; a version of the future is 504 with Retry-After', async () => {
    await create(fresh())
    const { body } = await ask('GET', `${LEASES}?limit=1`)
    expect([body.kind, body.items.length, body.items[0].kind]).toEqual(['LeaseList', 1, undefined])
    expect(await ask('GET', `${LEASES}?resourceVersion=99999999`)).toMatchObject({
      code: 504,
      headers: { 'retry-after': '1' },
      body: { reason: 'Timeout' },
    })
  })
})

describe('the cache', () => {
  it('may be old, and is asked with version 0 only', async () => {
    const name = fresh()
    const { metadata } = (await create(name, { holderIdentity: 'old' })).body
    server.objects.letCacheLag()
    const put = await ask('PUT', `${LEASES}/${name}`, { metadata, spec: { holderIdentity: 'new' } })
    expect(put.code).toBe(200)
    expect((await ask('GET', `${LEASES}/${name}`)).body.spec).toEqual({ holderIdentity: 'new' })
    expect((await ask('GET', `${LEASES}/${name}?resourceVersion=0`)).body.spec).toEqual({ holderIdentity: 'old' })
  })

  it('answers also while etcd is frozen, which a write and a read are told late', async () => {
    const name = fresh()
    const { body } = await create(name, { holderIdentity: 'a' })
    server.frozen = { writeMs: 30_000, readMs: 50 }
    const put = await ask('PUT', `${LEASES}/${name}?timeout=1s`, { ...body, spec: { holderIdentity: 'b' } })
    expect([put.code, put.body.reason]).toEqual([504, 'Timeout'])
    const get = await ask('GET', `${LEASES}/${name}`)
    expect([get.code, get.body.reason]).toEqual([500, undefined])
    expect((await ask('GET', `${LEASES}/${name}?resourceVersion=0`)).code).toBe(200)
    expect((await ask('GET', '/livez')).code).toBe(500)
    server.frozen = undefined
    for (const write of server.late.splice(0)) write() // it thaws, and the write is applied all the same
    expect((await ask('GET', `${LEASES}/${name}`)).body.spec).toEqual({ holderIdentity: 'b' })
  })
})

describe('watch', () => {
  it('tells the version shortly before it ends, and when all that was there has been told', async () => {
    const { body } = await ask(
      'GET',
      `${LEASES}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=${server.objects.version}`,
    )
    expect([body].flat()).toMatchObject([
      { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(server.objects.version) } } },
    ])
    const initial = await ask(
      'GET',
      `${LEASES}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`,
    )
    expect([initial.body].flat().at(-1)).toMatchObject({
      type: 'BOOKMARK',
      object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } },
    })
  })

  it('from a version of the future is silent, and from one that is none 500', async () => {
    const { code, body } = await ask('GET', `${LEASES}?watch=1&timeoutSeconds=1&resourceVersion=99999999`)
    expect([code, body]).toEqual([200, []])
    expect((await ask('GET', `${LEASES}?watch=1&resourceVersion=abc`)).code).toBe(500)
  })

  it('without a version begins with what there is, and ends by itself', async () => {
    const name = fresh()
    await create(name)
    const { code, body } = await ask('GET', `${LEASES}?watch=true&timeoutSeconds=1`)
    expect(code).toBe(200)
    expect([body].flat().map(({ type, object }) => `${type} ${object.metadata.name}`)).toContain(`ADDED ${name}`)
  })

  it('from a version tells what came after it; DELETED has the last spec and a new version', async () => {
    const from = server.objects.version
    const name = fresh()
    const { body: created } = await create(name, { holderIdentity: 'a' })
    await ask('DELETE', `${LEASES}/${name}`)
    const { body } = await ask('GET', `${LEASES}?watch=true&timeoutSeconds=1&resourceVersion=${from}`)
    expect(body).toMatchObject([{ type: 'ADDED' }, { type: 'DELETED', object: { spec: { holderIdentity: 'a' } } }])
    expect(body[1].object.metadata.resourceVersion).not.toBe(created.metadata.resourceVersion)
  })

  it('from a version that is forgotten is one ERROR in a good answer', async () => {
    server.objects.compacted = server.objects.version
    const { code, body } = await ask('GET', `${LEASES}?watch=true&resourceVersion=1`)
    expect([code, [body].flat()[0]]).toMatchObject([200, { type: 'ERROR', object: { code: 410, reason: 'Expired' } }])
    server.objects.compacted = 0
  })
})

describe('faults', () => {
  it('a write that is answered 504 was applied, or will be', async () => {
    const name = fresh()
    server.fault({ verb: 'create', is: 'applied' })
    expect(await create(name)).toMatchObject({ code: 504, body: { reason: 'Timeout' } })
    expect((await ask('GET', `${LEASES}/${name}`)).code).toBe(200)
    const other = fresh()
    server.fault({ verb: 'create', is: 'late' })
    expect((await create(other)).code).toBe(504)
    expect((await ask('GET', `${LEASES}/${other}`)).code).toBe(404)
    server.late.shift()?.()
    expect((await ask('GET', `${LEASES}/${other}`)).code).toBe(200)
  })

  it('a server that is told to end refuses connections, and its open watches say nothing any more', async () => {
    const ending = await KubernetesServer.start()
    const watch = request(`${ending.url}${LEASES}?watch=1`, {
      ca: ending.ca,
      headers: { Authorization: 'Bearer admin' },
    })
    let said = ''
    let hasEnded = false
    watch.on('response', (response) => {
      response.on('data', (text) => {
        said += text
      })
      response.on('close', () => {
        hasEnded = true
      })
    })
    watch.on('error', () => {})
    watch.end()
    await waitUntil('the watch', () => ending.watches === 1)
    ending.terminate()
    ending.objects.create('default', { metadata: { name: 'unseen' } })
    const refused = await new Promise<NodeJS.ErrnoException>((resolve) => {
      request(`${ending.url}${LEASES}`, { ca: ending.ca, agent: false }).on('error', resolve).end()
    })
    expect([refused.code, said, hasEnded]).toEqual(['ECONNREFUSED', '', false])
    await ending.stop()
  })

  it('a restart keeps what there is, with its version', async () => {
    const name = fresh()
    const { metadata } = (await create(name)).body
    await server.restart()
    expect((await ask('GET', `${LEASES}/${name}`)).body.metadata).toEqual(metadata)
  })
})
