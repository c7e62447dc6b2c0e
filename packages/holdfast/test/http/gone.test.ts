// A handler that never answers a client that has gone: its run ends, after a while, as what it is: unknown.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import { expect, it } from 'vitest'
import { expressIdempotent, fastifyIdempotent } from '../../src/http/index.js'
import { memoryRecords } from '../../src/stores/memory/index.js'
import { VirtualClock } from '../../src/testing/index.js'

const scope = () => 'a'
const never = () => new Promise<never>(() => {})

/** Asks, goes away when the handler runs, and looks at what is left a minute later. */
async function goAway(
  url: string,
  clock: VirtualClock,
  running: () => boolean,
  state: () => Promise<string | undefined>,
) {
  const controller = new AbortController()
  const headers = { 'idempotency-key': '"k"' }
  const asked = fetch(`${url}/`, { method: 'POST', headers, signal: controller.signal }).catch(() => 'gone')
  await expect.poll(running).toBe(true)
  const before = clock.pending
  controller.abort()
  expect(await asked).toBe('gone')
  await expect.poll(() => clock.pending).toBe(before + 1) // the server has heard of it
  await clock.advance(59_000)
  expect(await state()).toBe('running')
  await clock.advance(2_000)
  await expect.poll(state).toBe('unknown')
}

it('on Express', async () => {
  const [clock, records] = [new VirtualClock(), memoryRecords()]
  let running = false
  const app = express()
  app.post('/', expressIdempotent(records, { scope, clock }), () => {
    running = true
  })
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await goAway(
    `http://127.0.0.1:${port}`,
    clock,
    () => running,
    async () => (await records.inspect('a:k'))?.state,
  )
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

it('on Fastify', async () => {
  const [clock, records] = [new VirtualClock(), memoryRecords()]
  let running = false
  const app = fastify({ forceCloseConnections: true })
  app.post('/', { ...fastifyIdempotent(records, { scope, clock }) }, () => {
    running = true
    return never()
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  await goAway(
    `http://127.0.0.1:${port}`,
    clock,
    () => running,
    async () => (await records.inspect('a:k'))?.state,
  )
  await app.close()
})
