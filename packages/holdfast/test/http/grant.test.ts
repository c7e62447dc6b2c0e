// The grant in a header, and requests that carry it: what is sent, to whom, and what a guard makes of it.
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { admits } from '../../src/fence/fence.js'
import { fenced, fencedFetch, formatGrant, parseGrant } from '../../src/http/index.js'
import { createLeases, type Grant, LeaseLostError, type Leases, StaleTokenError } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { VirtualClock } from '../../src/testing/index.js'

const grant: Grant = { key: 'invoice:42', token: 1_764_543_210_123_456, claim: 'secret-claim', holder: 'web-1' }

describe('the header', () => {
  it('is a dictionary of strings that shows neither claim nor holder (golden)', () => {
    const digest = createHash('sha256').update('secret-claim').digest('hex')
    expect(formatGrant(grant)).toBe(`token="1764543210123456", key="invoice%3A42", claim="sha256-${digest}"`)
    expect(formatGrant(grant)).not.toMatch(/secret|web-1/)
  })

  it('comes back as it was sent, for every key', () => {
    const keys = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 50 }).filter((key) => !key.includes('\0'))
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (key, token) => {
        const header = formatGrant({ ...grant, key, token })
        expect(header).toMatch(/^[\x20-\x7e]+$/)
        expect(parseGrant(header)).toEqual({
          key,
          token,
          claim: expect.stringMatching(/^sha256-[0-9a-f]{64}$/),
          holder: '',
        })
        expect(parseGrant(formatGrant({ ...grant, key, token }, 'full')).claim).toBe('secret-claim')
      }),
    )
  })

  it('the digest is another one for another claim, and can stand for it before a fence', () => {
    const [one, two] = [parseGrant(formatGrant(grant)), parseGrant(formatGrant({ ...grant, claim: 'other' }))]
    expect(one.claim).not.toBe(two.claim)
    expect(admits(one, parseGrant(formatGrant(grant)))).toBe(true)
    expect(admits(one, two)).toBe(false)
  })

  it('takes members in any order, and members and parameters that it does not know', () => {
    expect(parseGrant('claim="c", extra=?1, n=5, key="k",token="7"')).toEqual({
      key: 'k',
      token: 7,
      claim: 'c',
      holder: '',
    })
  })

  it.each([
    '',
    'token=7',
    'token="7"',
    'token="7", key="k"',
    'token=7, key="k", claim="c"',
    'token="07", key="k", claim="c"',
    'token="0", key="k", claim="c"',
    'token="-1", key="k", claim="c"',
    'token="1.5", key="k", claim="c"',
    'token="9007199254740992", key="k", claim="c"',
    'token="7", key="", claim="c"',
    'token="7", key="%zz", claim="c"',
    'token="7", key="%ff", claim="c"',
    'token="7", token="8", key="k", claim="c"',
    'token="7" key="k" claim="c"',
    'token="7", key="k", claim="c",',
    'token="7", key="k", claim="c',
    'token="7", key="k\u00e9", claim="c"',
    'a'.repeat(10_000),
  ])('refuses %s', (value) => {
    expect(() => parseGrant(value)).toThrow(/grant/)
  })
})

/** A server that notes what it is sent. */
class Notes {
  readonly seen: { path: string; method: string; grant: string | undefined; body: string }[] = []
  url = ''
  answer: (request: IncomingMessage, path: string) => { status: number; headers?: Record<string, string> } | undefined =
    () => undefined
  readonly #server: Server = createServer(async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    const path = req.url ?? ''
    this.seen.push({ path, method: req.method ?? '', grant: req.headers['fencing-grant'] as string | undefined, body })
    const answer = this.answer(req, path) ?? { status: 200 }
    if (answer.status === 0) return // never
    res.writeHead(answer.status, answer.headers).end('ok')
  })

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

describe('fencedFetch', () => {
  const [here, elsewhere] = [new Notes(), new Notes()]
  let leases: Leases
  let clock: VirtualClock
  beforeAll(() => Promise.all([here.start(), elsewhere.start()]))
  afterAll(() => Promise.all([here.stop(), elsewhere.stop()]))
  beforeEach(() => {
    clock = new VirtualClock()
    leases = createLeases({ store: memoryStore({ clock }), clock })
    for (const notes of [here, elsewhere]) {
      notes.seen.length = 0
      notes.answer = () => undefined
    }
  })

  it('puts the grant into every request, beside what is there', async () => {
    const lease = await leases.acquire('invoice:42')
    const send = fencedFetch(lease)
    const response = await send(`${here.url}/a`, { method: 'PUT', body: 'paid', headers: { 'x-other': '1' } })
    expect(await response.text()).toBe('ok')
    await send(new Request(`${here.url}/b`))
    expect(here.seen).toMatchObject([
      { path: '/a', method: 'PUT', body: 'paid', grant: formatGrant(lease.grant) },
      { path: '/b', method: 'GET', grant: formatGrant(lease.grant) },
    ])
    await fencedFetch(lease, { claim: 'full', header: 'Fencing-Grant' })(`${here.url}/c`)
    expect(parseGrant(here.seen[2]?.grant ?? '').claim).toBe(lease.grant.claim)
    await lease.release()
  })

  it('sends nothing when the lease is not held (G5)', async () => {
    const lease = await leases.acquire('invoice:42', { renew: false })
    const send = fencedFetch(lease)
    await clock.advance(60_000)
    await expect(send(here.url)).rejects.toBeInstanceOf(LeaseLostError)
    expect(here.seen).toEqual([])
  })

  it('aborts what is under way when the lease is lost, and when the caller says so', async () => {
    here.answer = () => ({ status: 0 })
    const lease = await leases.acquire('invoice:42', { renew: false })
    const send = fencedFetch(lease)
    const controller = new AbortController()
    const [mine, lost] = [send(`${here.url}/mine`, { signal: controller.signal }), send(`${here.url}/lost`)]
    await expect.poll(() => here.seen.length).toBe(2)
    controller.abort(new Error('enough'))
    await expect(mine).rejects.toThrow('enough')
    const lostError = lost.catch((error) => error)
    await clock.advance(60_000)
    expect(await lostError).toBeInstanceOf(LeaseLostError)
  })

  it('follows a redirect within the origin, with the grant, as fetch does', async () => {
    const cases = [
      { status: 307, method: 'PUT', becomes: 'PUT', body: 'paid' },
      { status: 308, method: 'POST', becomes: 'POST', body: 'paid' },
      { status: 303, method: 'PUT', becomes: 'GET', body: '' },
      { status: 302, method: 'POST', becomes: 'GET', body: '' },
      { status: 301, method: 'PUT', becomes: 'PUT', body: 'paid' },
    ]
    const lease = await leases.acquire('invoice:42')
    for (const { status, method, becomes, body } of cases) {
      here.seen.length = 0
      here.answer = (_, path) => (path === '/from' ? { status, headers: { location: '/to' } } : undefined)
      const response = await fencedFetch(lease)(`${here.url}/from`, { method, body: 'paid' })
      expect(response.status).toBe(200)
      expect(here.seen[1]).toMatchObject({ path: '/to', method: becomes, body, grant: formatGrant(lease.grant) })
    }
    await lease.release()
  })

  it('does not follow one to another origin, so that the grant does not leak', async () => {
    const lease = await leases.acquire('invoice:42')
    for (const location of [`${elsewhere.url}/x`, here.url.replace('127.0.0.1', 'localhost'), 'not a url://']) {
      here.answer = () => ({ status: 307, headers: { location } })
      const response = await fencedFetch(lease)(`${here.url}/from`, { method: 'PUT', body: 'paid' })
      expect(response.status).toBe(307)
    }
    expect(elsewhere.seen).toEqual([])
    // Whereas the platform's own fetch takes any header of the caller's along.
    here.answer = () => ({ status: 307, headers: { location: `${elsewhere.url}/leak` } })
    await fetch(`${here.url}/from`, { headers: { 'fencing-grant': formatGrant(lease.grant) } })
    expect(elsewhere.seen).toMatchObject([{ path: '/leak', grant: formatGrant(lease.grant) }])
    await lease.release()
  })

  it('follows no more than twenty, and none where the request says so', async () => {
    here.answer = () => ({ status: 302, headers: { location: '/again' } })
    const lease = await leases.acquire('invoice:42')
    expect((await fencedFetch(lease)(here.url)).status).toBe(302)
    expect(here.seen).toHaveLength(21)
    await expect(fencedFetch(lease)(here.url, { redirect: 'error' })).rejects.toThrow()
    expect((await fencedFetch(lease)(here.url, { redirect: 'manual' })).status).toBe(302)
    await lease.release()
  })

  it('sends a stream once', async () => {
    const lease = await leases.acquire('invoice:42')
    const body = Readable.toWeb(Readable.from(['pa', 'id']))
    await fencedFetch(lease)(here.url, { method: 'PUT', body, duplex: 'half' } as unknown as RequestInit)
    expect(here.seen[0]?.body).toBe('paid')
    await lease.release()
  })

  it('refuses options that cannot be right', async () => {
    const lease = await leases.acquire('invoice:42')
    expect(() => fencedFetch({} as never)).toThrow(/must be a lease/)
    expect(() => fencedFetch(lease, { header: 'a b' })).toThrow(/name of a header/)
    expect(() => fencedFetch(lease, { claim: 'none' as never })).toThrow(/'digest' or 'full'/)
    await lease.release()
  })
})

describe('fenced', () => {
  function guarded(options: Partial<Parameters<typeof fenced>[0]> = {}) {
    let admitted: Grant | undefined
    const writes: number[] = []
    const guard = fenced({
      key: (request) => `invoice:${new URL(request.url).pathname.slice(1)}`,
      async admit(asked) {
        if (!admits(admitted, asked)) throw new StaleTokenError(asked.key, asked.token, admitted?.token)
        admitted = asked
      },
      ...options,
    })
    const handler = guard((_, received) => {
      writes.push(received?.token ?? 0)
      return new Response('written')
    })
    const send = (value?: string) =>
      handler(
        new Request('http://shop.test/42', {
          method: 'PUT',
          headers: value === undefined ? {} : { 'fencing-grant': value },
        }),
      )
    return { send, writes }
  }
  const of = (token: number, more: Partial<Grant> = {}) => formatGrant({ ...grant, token, ...more })
  const codeOf = async (response: Response) => [response.status, ((await response.json()) as { code: string }).code]

  it('admits bigger tokens and the same grant again; 412 for a smaller one, and for an equal one of another claim (G7)', async () => {
    const { send, writes } = guarded()
    expect((await send(of(7))).status).toBe(200)
    expect((await send(of(7))).status).toBe(200)
    expect((await send(of(10))).status).toBe(200)
    expect(await codeOf(await send(of(9)))).toEqual([412, 'STALE_TOKEN'])
    const refused = await send(of(10, { claim: 'another' }))
    expect(refused.headers.get('content-type')).toBe('application/problem+json')
    expect(await codeOf(refused)).toEqual([412, 'STALE_TOKEN'])
    expect(writes).toEqual([7, 7, 10])
  })

  it('428 when the grant is missing, or what was chosen; 400 when malformed; 403 for another key', async () => {
    const { send, writes } = guarded()
    expect(await codeOf(await send())).toEqual([428, 'GRANT_MISSING'])
    expect(await codeOf(await send('7'))).toEqual([400, 'GRANT_MALFORMED'])
    expect(await codeOf(await send(of(99, { key: 'invoice:43' })))).toEqual([403, 'GRANT_OF_ANOTHER_KEY'])
    expect((await send(of(1))).status).toBe(200) // the one before did not raise the fence
    expect(writes).toEqual([1])
    expect((await guarded({ missing: 401 }).send()).status).toBe(401)
    const open = guarded({ missing: 'pass' })
    expect((await open.send()).status).toBe(200)
    expect(open.writes).toEqual([0])
  })

  it("412 too when the handler's own fenced write is refused; other errors pass", async () => {
    const stale = fenced({ key: () => 'k', admit: () => {} })
    const request = () =>
      new Request('http://shop.test/', { headers: { 'fencing-grant': formatGrant({ ...grant, key: 'k' }) } })
    const refused = await stale(() => {
      throw new StaleTokenError('k', 7, 9)
    })(request())
    expect(refused.status).toBe(412)
    const failing = stale(() => Promise.reject(new Error('bug')))
    await expect(failing(request())).rejects.toThrow('bug')
  })

  it('refuses options that cannot be right', () => {
    expect(() => fenced({} as never)).toThrow(/key/)
    expect(() => fenced({ key: () => 'k' } as never)).toThrow(/admit/)
    expect(() => guarded({ missing: 200 as never })).toThrow(/missing/)
    expect(() => guarded({ header: '' })).toThrow(/header/)
  })
})
