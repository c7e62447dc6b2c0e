// The `Idempotency-Key` header on every framework, over real sockets.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { describe, expect, it } from 'vitest'
import { expressIdempotent, type IdempotentOptions, idempotent } from '../../src/http/index.js'
import { keptByDefault, responseCodec } from '../../src/http/stored-response.js'
import type { Records } from '../../src/idempotency/contract.js'
import { StoreError } from '../../src/index.js'
import { memoryRecords } from '../../src/stores/memory/index.js'
import { frameworks, type Running } from './servers.js'

const JSON_BODY = '{"amount":100,"to":"shop"}'

describe.each(frameworks)('$name', ({ start }) => {
  async function withShop(
    test: (shop: Running & { records: Records; errors: unknown[] }) => Promise<void>,
    options: Omit<IdempotentOptions<never>, 'scope'> = {},
    records: Records = memoryRecords(),
  ): Promise<void> {
    const errors: unknown[] = []
    const running = await start(records, { onError: (error) => errors.push(error), ...options })
    try {
      await test({ ...running, records, errors })
    } finally {
      await running.close()
    }
  }

  const post = (
    { url }: { url: string },
    {
      key = '"key-1"',
      how = 'plain',
      body = JSON_BODY,
      type = 'application/json',
      tenant = 'a',
      method = 'POST',
    }: {
      key?: string | null
      how?: string
      body?: string | Uint8Array | ReadableStream
      type?: string
      tenant?: string
      method?: string
    } = {},
  ) =>
    fetch(`${url}/payments?how=${how}`, {
      method,
      headers: { ...(key !== null && { 'idempotency-key': key }), 'content-type': type, 'x-tenant': tenant },
      ...(method !== 'GET' && { body: body as string, ...(body instanceof ReadableStream && { duplex: 'half' }) }),
    } as RequestInit)

  async function problem(response: Response): Promise<{ code: string; status: number; type: string }> {
    expect(response.headers.get('content-type')).toContain('application/problem+json')
    const document = (await response.json()) as { code: string; status: number; type: string; title: string }
    expect(document.status).toBe(response.status)
    expect(document.type).toBe(`urn:holdfast:${document.code.toLowerCase().replaceAll('_', '-')}`)
    expect(document.title).not.toBe('')
    return document
  }

  it('replays the stored response with status, headers and body, marked, and without cookies', () =>
    withShop(async (shop) => {
      const first = await post(shop)
      expect([first.status, await first.json()]).toEqual([201, { id: 1 }])
      expect(first.headers.get('idempotency-replayed')).toBe(null)
      expect(first.headers.getSetCookie()).toEqual(['session=secret', 'theme=dark'])
      const again = await post(shop)
      expect([again.status, await again.json()]).toEqual([201, { id: 1 }])
      expect(again.headers.get('idempotency-replayed')).toBe('true')
      expect(again.headers.get('location')).toBe('/payments/1')
      expect(again.headers.get('vary')).toBe('accept, origin')
      expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
      expect(again.headers.getSetCookie()).toEqual([])
      expect(shop.shop.effects).toBe(1)
      expect((await shop.records.inspect('a:key-1'))?.end?.text).not.toContain('secret')
    }))

  it('tells the handler of its run, whose key has the scope in it', () =>
    withShop(async (shop) => {
      await post(shop)
      expect(shop.shop.runs).toMatchObject([{ key: 'a:key-1', attempt: 1 }])
    }))

  it('keeps binary and empty bodies as they were', () =>
    withShop(async (shop) => {
      for (const how of ['binary', 'empty']) {
        const [first, again] = [await post(shop, { key: how, how }), await post(shop, { key: how, how })]
        expect(again.headers.get('idempotency-replayed')).toBe('true')
        expect(again.status).toBe(first.status)
        expect(Buffer.from(await again.arrayBuffer())).toEqual(Buffer.from(await first.arrayBuffer()))
      }
      expect(shop.shop.effects).toBe(2)
    }))

  it('keeps a response that was streamed', () =>
    withShop(async (shop) => {
      const [first, again] = [await post(shop, { how: 'stream' }), await post(shop, { how: 'stream' })]
      expect(await first.text()).toBe('part 0;part 1;part 2;part 3;part 4;')
      expect(await again.text()).toBe('part 0;part 1;part 2;part 3;part 4;')
      expect(shop.shop.effects).toBe(1)
    }))

  it('sends a response that is too long to be kept; a repeat is told that the outcome is unknown', () =>
    withShop(
      async (shop) => {
        const first = await post(shop, { how: 'large' })
        expect(await first.text()).toBe('x'.repeat(5_000))
        const again = await post(shop, { how: 'large' })
        expect(again.status).toBe(500)
        expect((await problem(again)).code).toBe('UNKNOWN_OUTCOME')
        expect(shop.shop.effects).toBe(1)
        expect(shop.errors.length).toBeGreaterThan(0)
      },
      { responseBytesMax: 1_500 },
    ))

  it('400 when the key is missing or malformed; nothing is run', () =>
    withShop(async (shop) => {
      for (const key of [null, '', '""', '"a', 'a, b', '"a" "b"', `"${'x'.repeat(256)}"`]) {
        const response = await post(shop, { key })
        expect(response.status, String(key)).toBe(400)
        expect((await problem(response)).code).toMatch(/^KEY_M/)
      }
      expect(shop.shop.effects).toBe(0)
    }))

  it('passes what needs no key: other methods, and missing keys where they are not required', () =>
    withShop(
      async (shop) => {
        for (let i = 0; i < 2; i++) expect((await post(shop, { key: null })).status).toBe(201)
        for (let i = 0; i < 2; i++) expect((await post(shop, { method: 'PUT' })).status).toBe(201)
        for (let i = 0; i < 2; i++) expect((await post(shop, { method: 'GET' })).status).toBe(201)
        expect(shop.shop.effects).toBe(6)
        expect(shop.shop.runs.every((run) => run === undefined)).toBe(true)
      },
      { required: false },
    ))

  it('takes a key with and without quotes as the same', () =>
    withShop(async (shop) => {
      await post(shop, { key: '"8e03978e-40d5-43dd"' })
      expect((await post(shop, { key: '8e03978e-40d5-43dd' })).headers.get('idempotency-replayed')).toBe('true')
    }))

  it('takes every key of up to 255 characters, whatever they are, each for itself (C55)', () =>
    withShop(async (shop) => {
      const keys = [':'.repeat(255), `${':'.repeat(254)}%`, '%3A'.repeat(85), '~'.repeat(255)]
      for (const [i, key] of keys.entries()) {
        expect(await (await post(shop, { key: `"${key}"` })).json()).toEqual({ id: i + 1 })
        expect((await post(shop, { key: `"${key}"` })).headers.get('idempotency-replayed')).toBe('true')
      }
      expect(await (await post(shop, { key: `"${keys[0]}"`, tenant: 'b' })).json()).toEqual({ id: keys.length + 1 })
    }))

  it('takes JSON that has no canonical form by its text (C56)', () =>
    withShop(async (shop) => {
      const deep = (end: string) => `{"amount":${'['.repeat(300)}${end}${']'.repeat(300)}}`
      const pairs = [
        ['{"to":"\\ud800"}', '{"to":"\\ud801"}'],
        ['{"\\u00e9":1,"e\\u0301":2}', '{"\\u00e9":2,"e\\u0301":1}'],
        [deep('1'), deep('2')],
      ] as const
      for (const [i, [body, other]] of pairs.entries()) {
        const key = `odd-${i}`
        expect((await post(shop, { key, body })).status).toBe(201)
        expect((await post(shop, { key, body })).headers.get('idempotency-replayed')).toBe('true')
        expect((await post(shop, { key, body: other })).status).toBe(422)
      }
    }))

  it('422 when the key is used for another payload, path, query or method (C55)', () =>
    withShop(async (shop) => {
      await post(shop)
      const others = [
        post(shop, { body: '{"amount":101,"to":"shop"}' }),
        post(shop, { how: 'other' }),
        post(shop, { method: 'PATCH' }),
        post(shop, { type: 'text/plain' }),
      ]
      for (const response of await Promise.all(others)) {
        expect(response.status).toBe(422)
        expect((await problem(response)).code).toBe('KEY_REUSED')
      }
      expect(shop.shop.effects).toBe(1)
    }))

  it('sees the same payload in another order and layout (C56), and takes all else by its bytes', () =>
    withShop(async (shop) => {
      await post(shop)
      const same = await post(shop, {
        body: ' { "to" : "shop", "amount" : 1.0e2 } ',
        type: 'application/json; charset=utf-8',
      })
      expect(same.headers.get('idempotency-replayed')).toBe('true')
      await post(shop, { key: 'text', body: 'a b', type: 'text/plain' })
      expect((await post(shop, { key: 'text', body: 'a  b', type: 'text/plain' })).status).toBe(422)
      const bytes = { key: 'bytes', type: 'application/octet-stream' }
      await post(shop, { ...bytes, body: Uint8Array.of(0, 255, 1) })
      expect((await post(shop, { ...bytes, body: Uint8Array.of(0, 255, 1) })).headers.get('idempotency-replayed')).toBe(
        'true',
      )
      expect((await post(shop, { ...bytes, body: Uint8Array.of(0, 254, 1) })).status).toBe(422)
    }))

  it('never tells one tenant the answer of another (C55)', () =>
    withShop(async (shop) => {
      expect(await (await post(shop, { tenant: 'a' })).json()).toEqual({ id: 1 })
      expect(await (await post(shop, { tenant: 'b' })).json()).toEqual({ id: 2 })
      expect(await (await post(shop, { tenant: 'a:key-1', key: 'x' })).json()).toEqual({ id: 3 })
    }))

  it('409 with Retry-After while the first is running, then its response; 422 comes before', () =>
    withShop(async (shop) => {
      let open = () => {}
      shop.shop.gate = new Promise((resolve) => {
        open = resolve
      })
      const first = post(shop)
      await expect.poll(() => shop.shop.effects).toBe(1)
      const second = await post(shop)
      expect(second.status).toBe(409)
      expect(Number(second.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
      expect(Number(second.headers.get('retry-after'))).toBeLessThanOrEqual(5) // not the whole term of the run
      expect((await problem(second)).code).toBe('IN_PROGRESS')
      expect((await post(shop, { body: '{}' })).status).toBe(422)
      open()
      expect((await first).status).toBe(201)
      expect((await post(shop)).headers.get('idempotency-replayed')).toBe('true')
      expect(shop.shop.effects).toBe(1)
    }))

  it('of twenty at once one runs, and with waitMs all get its response (C57)', () =>
    withShop(
      async (shop) => {
        const all = await Promise.all(Array.from({ length: 20 }, () => post(shop)))
        for (const response of all) expect(await response.json()).toEqual({ id: 1 })
        expect(shop.shop.effects).toBe(1)
      },
      { waitMs: 10_000 },
    ))

  it.each(['status-400', 'status-404', 'status-500', 'status-503', 'throw'])(
    '%s is not replayed, and the key may be used again',
    (how) =>
      withShop(async (shop) => {
        const first = await post(shop, { how })
        expect(first.status).toBe(how === 'throw' ? 500 : Number(how.slice(7)))
        await first.text()
        expect((await post(shop, { how })).headers.get('idempotency-replayed')).toBe(null)
        expect((await post(shop, { body: '{"amount":1}' })).status).toBe(201) // corrected
        expect(shop.shop.effects).toBe(3)
      }),
  )

  it('replays what decide says, and leaves unknown what it says', () =>
    withShop(
      async (shop) => {
        await post(shop, { key: 'declined', how: 'status-402' })
        const again = await post(shop, { key: 'declined', how: 'status-402' })
        expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([402, 'true'])
        expect((await post(shop, { key: 'late', how: 'status-504' })).status).toBe(504)
        expect((await problem(await post(shop, { key: 'late', how: 'status-504' }))).code).toBe('UNKNOWN_OUTCOME')
        expect(shop.shop.effects).toBe(2)
      },
      { decide: ({ status }) => (status === 504 ? 'unknown' : status < 500 ? 'record' : 'forget') },
    ))

  it('413 for a body that is too large', () =>
    withShop(
      async (shop) => {
        const long = { body: 'x'.repeat(2_000), type: 'text/plain' }
        const response = await post(shop, long)
        expect((await problem(response)).code).toBe('BODY_TOO_LARGE')
        expect(response.status).toBe(413)
        expect(shop.shop.effects).toBe(0)
      },
      { bodyBytesMax: 1_000 },
    ))

  it('503 when the records cannot be reached, and nothing is run', () => {
    const refuse = () => Promise.reject(new StoreError('down', { outcome: 'none' }))
    return withShop(
      async (shop) => {
        const response = await post(shop)
        expect(response.status).toBe(503)
        expect(response.headers.get('retry-after')).toBe('1')
        expect((await problem(response)).code).toBe('STORE_ERROR')
        expect(shop.shop.effects).toBe(0)
        expect(shop.errors).toHaveLength(1)
      },
      {},
      { ...memoryRecords(), begin: refuse },
    )
  })

  it('sends the response only when it is recorded', () => {
    const memory = memoryRecords()
    let record = () => {}
    const recorded = new Promise<void>((resolve) => {
      record = resolve
    })
    const slow: Records = {
      ...memory,
      finish: async (...args) => {
        await recorded
        return memory.finish(...args)
      },
    }
    return withShop(
      async (shop) => {
        let answered = false
        const first = post(shop).then((response) => {
          answered = true
          return response
        })
        await expect.poll(() => shop.shop.effects).toBe(1)
        expect((await post(shop)).status).toBe(409)
        expect(answered).toBe(false)
        record()
        expect((await first).status).toBe(201)
      },
      {},
      slow,
    )
  })

  it('a response that could not be recorded is sent all the same', () => {
    const memory = memoryRecords()
    const broken: Records = {
      ...memory,
      finish: (run, end, retentionMs) =>
        end.is === 'returned'
          ? Promise.reject(new StoreError('down', { outcome: 'none' }))
          : memory.finish(run, end, retentionMs),
    }
    return withShop(
      async (shop) => {
        const first = await post(shop)
        expect([first.status, await first.json()]).toEqual([201, { id: 1 }])
        expect(shop.errors).toMatchObject([{ code: 'NOT_RECORDED' }])
      },
      { ttlMs: 200 },
      broken,
    )
  })

  it('a client that goes away does not end the run: its repeat gets the response', () =>
    withShop(async (shop) => {
      let open = () => {}
      shop.shop.gate = new Promise((resolve) => {
        open = resolve
      })
      const controller = new AbortController()
      const gone = fetch(`${shop.url}/payments?how=plain`, {
        method: 'POST',
        body: JSON_BODY,
        signal: controller.signal,
        headers: { 'idempotency-key': '"key-1"', 'content-type': 'application/json', 'x-tenant': 'a' },
      }).catch(() => 'gone')
      await expect.poll(() => shop.shop.effects).toBe(1)
      controller.abort()
      expect(await gone).toBe('gone')
      open()
      await expect.poll(async () => (await post(shop)).status).toBe(201)
      expect(shop.shop.effects).toBe(1)
    }))
})

it('what a parser has made of JSON that is no data, such as a Map, is refused, and not taken for the same as another', async () => {
  const errors: unknown[] = []
  const app = express()
  app.post('/payments', (req, _res, next) => {
    req.body = { amount: new Map([['eur', 100]]) }
    next()
  })
  app.use('/payments', expressIdempotent(memoryRecords(), { scope: () => 'a' }))
  app.post('/payments', (_req, res) => void res.send('reached'))
  app.use((error: unknown, _req: unknown, res: express.Response, _next: unknown) => {
    errors.push(error)
    res.status(500).end()
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const headers = { 'idempotency-key': 'k', 'content-type': 'application/json' }
  const response = await fetch(`http://127.0.0.1:${port}/payments`, { method: 'POST', headers, body: '{}' })
  expect(response.status).toBe(500)
  expect(errors).toMatchObject([{ code: 'INVALID_ARGUMENT', option: 'value.amount' }])
  server.closeAllConnections()
  server.close()
})

describe('what is kept of a response', () => {
  it('has no headers of one connection, neither by their name nor named by it', () => {
    const codec = responseCodec(keptByDefault, 1_000)
    const headers = [
      ['Connection', 'x-hop, keep-alive'],
      ['X-Hop', '1'],
      ['Keep-Alive', 'timeout=5'],
      ['Content-Length', '2'],
      ['Date', 'Tue, 01 Dec 2026 00:00:00 GMT'],
      ['Set-Cookie', 'session=1'],
      ['X-Receipt', 'r-1'],
    ] as const
    const text = codec.encode({ status: 201, headers, body: new TextEncoder().encode('ok') })
    expect(codec.decode(text)).toEqual({
      status: 201,
      headers: [['x-receipt', 'r-1']],
      body: new TextEncoder().encode('ok'),
    })
  })
})

it('options that cannot be right are refused when the handling is made, not at the first request', () => {
  const wrong = {
    scope: ['a'],
    header: ['', 'a b'],
    methods: ['POST', ['post'], [1]],
    decide: ['record'],
    keepHeader: [true],
    bodyBytesMax: [-1, Number.NaN],
    responseBytesMax: [1.5],
    retentionMs: [0, Number.NaN],
    waitMs: [-1, '1'],
    ttlMs: [1, Number.POSITIVE_INFINITY],
    onUnknown: ['again'],
    onError: [1],
  }
  for (const [option, values] of Object.entries(wrong)) {
    for (const value of values) {
      const options = { scope: () => 'a', [option]: value } as unknown as IdempotentOptions<Request>
      expect(() => idempotent(memoryRecords(), options), `${option}: ${value}`).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT', option, value }),
      )
    }
  }
})

describe('a handler behind the header', () => {
  const request = () =>
    new Request('http://shop.example/payments', { method: 'POST', headers: { 'idempotency-key': '"k"' }, body: '{}' })
  const behind = (records: Records, handler: () => Response, onError?: (error: unknown) => void) =>
    idempotent(records, { scope: () => 'a', ...(onError && { onError }) })(handler)(request())

  it('that throws is heard by its framework as it was thrown', async () => {
    const error = new Error('no such account')
    const handler = () => {
      throw error
    }
    await expect(behind(memoryRecords(), handler)).rejects.toBe(error)
  })

  it('is not reached, and the option is named, when the scope is none', async () => {
    for (const scope of ['', undefined, 'x'.repeat(441), ':'.repeat(150), '\ud800']) {
      const handle = idempotent(memoryRecords(), { scope: () => scope as string })
      const handler = handle(() => {
        throw new Error('reached')
      })
      await expect(handler(request())).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        option: 'scope',
        value: scope,
      })
    }
  })

  it('that another took over: a response that was not to be kept is sent, of one that was the other tells', async () => {
    const taken: Records = { ...memoryRecords(), finish: async () => 'lost' }
    expect((await behind(taken, () => new Response('no', { status: 400 }))).status).toBe(400)
    const other: Records = { ...memoryRecords(), finish: async () => 'lost' }
    const answer = await behind(other, () => new Response('paid', { status: 201 }))
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([409, '1'])
  })

  it('whose listener for errors throws answers all the same', async () => {
    const down: Records = {
      ...memoryRecords(),
      begin: () => Promise.reject(new StoreError('down', { outcome: 'none' })),
    }
    const listener = () => {
      throw new Error('the log is full')
    }
    expect((await behind(down, () => new Response('paid'), listener)).status).toBe(503)
  })
})
