// The shop that the tests talk to, on every framework: POST /payments has an effect, and its answer can be told to fail, to wait, to be
// large or to stream. Real sockets, since what a framework does to a response shows only there.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { serve } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import {
  expressIdempotent,
  fastifyIdempotent,
  fastifyRun,
  honoIdempotent,
  type IdempotentOptions,
  idempotent,
} from '../../src/http/index.js'
import type { Records, RunInfo } from '../../src/idempotency/index.js'

export interface Shop {
  /** How often the handler ran. */
  effects: number
  /** The runs that handlers were told of. */
  readonly runs: (RunInfo | undefined)[]
  /** What handlers wait for before they answer. */
  gate: Promise<void>
}

export interface Running {
  readonly url: string
  readonly shop: Shop
  close(): Promise<void>
}

type Options = Omit<IdempotentOptions<never>, 'scope'>

export interface Framework {
  readonly name: string
  start(records: Records, options?: Options): Promise<Running>
}

const newShop = (): Shop => ({ effects: 0, runs: [], gate: Promise.resolve() })

/** What every handler does. `how` comes from the query. */
async function sell(shop: Shop, run: RunInfo | undefined, how: string | null): Promise<{ id: number }> {
  shop.effects++
  shop.runs.push(run)
  await shop.gate
  if (how === 'throw') throw new Error('the handler failed')
  return { id: shop.effects }
}

const statusOf = (how: string | null) => (how?.startsWith('status-') ? Number(how.slice(7)) : 201)
const LARGE = 'x'.repeat(5_000)
const BINARY = Uint8Array.from({ length: 256 }, (_, byte) => byte)

async function listen(server: Server): Promise<{ url: string; close(): Promise<void> }> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function* streamed() {
  for (let i = 0; i < 5; i++) yield new TextEncoder().encode(`part ${i};`)
}

async function webHandler(shop: Shop, request: Request, run: RunInfo | undefined): Promise<Response> {
  const url = new URL(request.url)
  const how = url.searchParams.get('how')
  const body = request.method === 'GET' ? '' : await request.text()
  const sold = await sell(shop, run, how)
  const headers = { location: `/payments/${sold.id}`, 'x-seen': String(body.length) }
  if (how === 'large') return new Response(LARGE, { status: 201 })
  if (how === 'binary') return new Response(BINARY, { status: 201 })
  if (how === 'empty') return new Response(null, { status: 204, headers })
  if (how === 'stream') return new Response(ReadableStream.from(streamed()), { status: 201 })
  const response = Response.json(sold, { status: statusOf(how), headers })
  response.headers.append('set-cookie', 'session=secret')
  response.headers.append('set-cookie', 'theme=dark')
  response.headers.append('vary', 'accept')
  response.headers.append('vary', 'origin')
  return response
}

export const frameworks: readonly Framework[] = [
  {
    name: 'web-standard handler',
    async start(records, options) {
      const shop = newShop()
      const handle = idempotent(records, {
        scope: (request) => request.headers.get('x-tenant') ?? 'anonymous',
        ...options,
      })
      const guarded = handle((request, run) => webHandler(shop, request, run))
      const server = createServer(async (req, res) => {
        const headers = new Headers()
        for (let i = 0; i < req.rawHeaders.length; i += 2)
          headers.append(req.rawHeaders[i] ?? '', req.rawHeaders[i + 1] ?? '')
        const hasBody = req.method !== 'GET'
        const init = {
          method: req.method ?? 'GET',
          headers,
          ...(hasBody && { body: Readable.toWeb(req), duplex: 'half' }),
        }
        try {
          const response = await guarded(new Request(`http://shop.test${req.url}`, init as RequestInit))
          res.statusCode = response.status
          for (const [name, value] of response.headers) res.appendHeader(name, value)
          if (response.body === null) res.end()
          else Readable.fromWeb(response.body as never).pipe(res)
        } catch {
          res.statusCode = 500
          res.end()
        }
      })
      return { shop, ...(await listen(server)) }
    },
  },
  {
    name: 'Express 5',
    async start(records, options) {
      const shop = newShop()
      const app = express()
      app.use(express.json(), express.text(), express.raw({ type: 'application/octet-stream' }))
      app.use(
        expressIdempotent<express.Request>(records, { scope: (req) => req.get('x-tenant') ?? 'anonymous', ...options }),
      )
      app.all('/payments{/:id}', async (req, res) => {
        const how = typeof req.query.how === 'string' ? req.query.how : null
        const sold = await sell(shop, res.locals.run, how)
        res.location(`/payments/${sold.id}`)
        if (how === 'large') {
          res.status(201)
          for (let i = 0; i < 5; i++) res.write(LARGE.slice(0, 1_000))
          res.end()
        } else if (how === 'binary') res.status(201).end(Buffer.from(BINARY))
        else if (how === 'empty') res.status(204).end()
        else if (how === 'stream') {
          res.writeHead(201, { 'content-type': 'text/plain' })
          Readable.from(streamed()).pipe(res)
        } else {
          res.append('set-cookie', 'session=secret')
          res.append('set-cookie', 'theme=dark')
          res.append('vary', 'accept')
          res.append('vary', 'origin')
          res.status(statusOf(how)).json(sold)
        }
      })
      app.use((_error: unknown, _req: express.Request, res: express.Response, _next: express.NextFunction) => {
        res.status(500).end('failed')
      })
      return { shop, ...(await listen(createServer(app))) }
    },
  },
  {
    name: 'Fastify 5',
    async start(records, options) {
      const shop = newShop()
      const app = fastify({ forceCloseConnections: true })
      const scope = (request: { headers: Record<string, string | string[] | undefined> }) =>
        String(request.headers['x-tenant'] ?? 'anonymous')
      app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
        done(null, body),
      )
      app.route<{ Querystring: { how?: string } }>({
        method: ['GET', 'POST', 'PUT', 'PATCH'],
        url: '/payments',
        ...fastifyIdempotent(records, { scope, ...options }),
        async handler(request, reply) {
          const how = request.query.how ?? null
          const sold = await sell(shop, fastifyRun(request), how)
          reply.code(201).header('location', `/payments/${sold.id}`)
          if (how === 'large') return reply.send(LARGE)
          if (how === 'binary') return reply.send(Buffer.from(BINARY))
          if (how === 'empty') return reply.code(204).send()
          if (how === 'stream') return reply.send(Readable.from(streamed()))
          reply.header('set-cookie', ['session=secret', 'theme=dark']).header('vary', 'accept, origin')
          return reply.code(statusOf(how)).send(sold)
        },
      })
      await app.listen({ port: 0, host: '127.0.0.1' })
      const { port } = app.server.address() as AddressInfo
      return { shop, url: `http://127.0.0.1:${port}`, close: () => app.close() }
    },
  },
  {
    name: 'Hono 4',
    async start(records, options) {
      const shop = newShop()
      const app = new Hono<{ Variables: { run: RunInfo } }>()
      app.use(honoIdempotent(records, { scope: (c) => c.req.raw.headers.get('x-tenant') ?? 'anonymous', ...options }))
      app.all('/payments/:id?', (c) => webHandler(shop, c.req.raw, c.get('run')))
      app.onError((_error, c) => c.text('failed', 500))
      const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server
      if (!server.listening) await new Promise((resolve) => server.once('listening', resolve))
      const { port } = server.address() as AddressInfo
      return {
        shop,
        url: `http://127.0.0.1:${port}`,
        async close() {
          server.closeAllConnections()
          await new Promise((resolve) => server.close(resolve))
        },
      }
    },
  },
]
