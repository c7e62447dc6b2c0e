// The proxy against a plain echo server: each fault, and that healing ends it.
import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { waitUntil } from '../faults/harness.js'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

/** A server that answers what it is told, and remembers it. */
async function echo(): Promise<{ port: number; said: () => string; sockets: Set<Socket>; server: Server }> {
  let said = ''
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (data) => {
      said += data
      socket.write(data)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return { port: address.port, said: () => said, sockets, server }
}

/** A client that remembers what it heard and how it ended. */
async function dial(proxy: TcpProxy) {
  const socket = connect(proxy.port, proxy.host)
  closers.push(() => socket.destroy())
  const client = { socket, heard: '', end: '' }
  socket.on('data', (data) => {
    client.heard += data
  })
  socket.on('end', () => {
    client.end ||= 'end'
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    client.end ||= error.code ?? 'error'
  })
  await waitUntil('the client is connected', () => !socket.connecting)
  return client
}

async function world() {
  const server = await echo()
  const proxy = await tcpProxy({ port: server.port })
  closers.push(() => proxy.close())
  return { server, proxy }
}

/** Says something through another connection, so that whatever was to come through first has had its time. */
async function roundTrip(proxy: TcpProxy): Promise<void> {
  const other = await dial(proxy)
  other.socket.write('hello')
  await waitUntil('another connection is answered', () => other.heard === 'hello')
  other.socket.destroy()
}

describe('tcpProxy', () => {
  it('passes bytes and ends on, and counts them', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    client.socket.write('one')
    await waitUntil('the echo comes', () => client.heard === 'one')
    client.socket.end('two')
    await waitUntil('the end comes back', () => client.end === 'end')
    expect(client.heard).toBe('onetwo')
    expect(server.said()).toBe('onetwo')
    await waitUntil('the connection is over', () => proxy.counts.open === 0)
    expect(proxy.counts).toEqual({
      accepted: 1,
      open: 0,
      reset: 0,
      bytesToServer: 6,
      bytesToClient: 6,
      bytesSwallowed: 0,
    })
  })

  it('carries more than any buffer holds', async () => {
    const { proxy } = await world()
    const client = await dial(proxy)
    const bytes = 20_000_000
    client.socket.write(Buffer.alloc(bytes, 'x'))
    await waitUntil('all of it came back', () => client.heard.length === bytes)
    expect(proxy.counts.bytesToClient).toBe(bytes)
  })

  it('reads no more than the other side takes', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    await waitUntil('the server has it', () => server.sockets.size === 1)
    for (const socket of server.sockets) socket.pause()
    client.socket.write(Buffer.alloc(100_000_000, 'x'))
    let before = -1
    while (proxy.counts.bytesToServer !== before) {
      before = proxy.counts.bytesToServer
      for (let i = 0; i < 10; i++) await roundTrip(await another(proxy))
    }
    expect(proxy.counts.bytesToServer).toBeLessThan(50_000_000)
  })

  it('hang: accepts, passes nothing on, and delivers after heal', async () => {
    const { server, proxy } = await world()
    const before = await dial(proxy)
    proxy.hang()
    const after = await dial(proxy)
    before.socket.write('a')
    after.socket.write('b')
    await waitUntil('both connections were accepted', () => proxy.counts.open === 2)
    expect([server.said(), proxy.counts.bytesToServer]).toEqual(['', 0])
    proxy.heal()
    await waitUntil('both are answered', () => before.heard === 'a' && after.heard === 'b')
  })

  it('hang toClient: requests go through, replies wait', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    proxy.hang('toClient')
    client.socket.write('a')
    await waitUntil('the server heard it', () => server.said() === 'a')
    expect(client.heard).toBe('')
    proxy.heal()
    await waitUntil('the reply comes', () => client.heard === 'a')
  })

  it('hang: a server that dies meanwhile is not noticed before heal', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    await waitUntil('the server has it', () => server.sockets.size === 1)
    proxy.hang()
    for (const socket of server.sockets) socket.resetAndDestroy()
    await waitUntil('the server has lost it', () => server.sockets.size === 0)
    const second = await dial(proxy)
    second.socket.write('a')
    expect(client.end).toBe('')
    proxy.heal()
    await waitUntil('the client is told', () => client.end === 'ECONNRESET')
    await waitUntil('the other goes on', () => second.heard === 'a')
  })

  it('halfOpen server: the server is gone, the client is not told; reset at heal', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    client.socket.write('a')
    await waitUntil('the echo comes', () => client.heard === 'a')
    proxy.halfOpen('server')
    await waitUntil('the server has lost it', () => server.sockets.size === 0)
    client.socket.write('lost')
    await roundTrip(proxy)
    expect([client.heard, client.end]).toEqual(['a', ''])
    proxy.heal()
    await waitUntil('the client is told', () => client.end === 'ECONNRESET')
    expect(server.said()).not.toContain('lost')
  })

  it('halfOpen client: the client is gone, the server keeps its connection until heal', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    await waitUntil('the server has it', () => server.sockets.size === 1)
    const [kept] = server.sockets
    proxy.halfOpen('client')
    await waitUntil('the client is cut off', () => client.end === 'ECONNRESET')
    await roundTrip(proxy)
    expect(kept?.destroyed).toBe(false)
    proxy.heal()
    await waitUntil('the server is told', () => server.sockets.size === 0)
  })

  it('cut: resets what is open, once', async () => {
    const { server, proxy } = await world()
    const client = await dial(proxy)
    await waitUntil('the server has it', () => server.sockets.size === 1)
    proxy.cut()
    await waitUntil('both sides are told', () => client.end === 'ECONNRESET' && server.sockets.size === 0)
    await roundTrip(proxy)
    expect(proxy.counts.reset).toBe(1)
  })

  it('refuse: resets new connections until heal', async () => {
    const { proxy } = await world()
    const before = await dial(proxy)
    proxy.refuse()
    const refused = await dial(proxy)
    await waitUntil('the new one is reset', () => refused.end === 'ECONNRESET')
    before.socket.write('a')
    await waitUntil('the old one goes on', () => before.heard === 'a')
    proxy.heal()
    await roundTrip(proxy)
  })

  it('slow: each chunk comes later, in order, also when it is healed half-way', async () => {
    const { proxy } = await world()
    const client = await dial(proxy)
    proxy.slow(200)
    const startMs = performance.now()
    client.socket.write('a')
    await waitUntil('the echo comes', () => client.heard === 'a')
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(390)
    proxy.slow(600_000, 'toServer')
    client.socket.write('b')
    await roundTrip(await another(proxy))
    client.socket.write('c')
    expect(client.heard).toBe('a')
    proxy.heal()
    await waitUntil('the rest comes', () => client.heard === 'abc')
  })

  it('swallowReplies: requests are applied, nobody hears; a stream with a hole is reset at heal', async () => {
    const { server, proxy } = await world()
    const whole = await dial(proxy)
    const holed = await dial(proxy)
    proxy.swallowReplies()
    holed.socket.write('applied')
    await waitUntil('the reply is swallowed', () => proxy.counts.bytesSwallowed === 7)
    expect([server.said(), holed.heard, holed.end]).toEqual(['applied', '', ''])
    proxy.heal()
    await waitUntil('the client is told', () => holed.end === 'ECONNRESET')
    whole.socket.write('a')
    await waitUntil('the untouched one goes on', () => whole.heard === 'a')
  })

  it('resets its clients when the server cannot be reached, and goes on when it can', async () => {
    const { server, proxy } = await world()
    const closed = new Promise((resolve) => server.server.close(resolve))
    await closed
    const client = await dial(proxy)
    await waitUntil('the client is reset', () => client.end !== '')
    await new Promise<void>((resolve) => server.server.listen(server.port, '127.0.0.1', resolve))
    await roundTrip(proxy)
  })

  it('close: resets what is open and frees its port; a taken port rejects', async () => {
    const { proxy, server } = await world()
    const client = await dial(proxy)
    await expect(tcpProxy({ port: server.port, listenPort: proxy.port })).rejects.toThrow(/EADDRINUSE/)
    await proxy.close()
    await waitUntil('the client is told', () => client.end === 'ECONNRESET')
    const again = await tcpProxy({ port: server.port, listenPort: proxy.port })
    closers.push(() => again.close())
    await roundTrip(again)
  })
})

/** A second proxy in front of the first one's server does not share its faults; used to let time pass by a round trip. */
async function another(proxy: TcpProxy): Promise<TcpProxy> {
  const server = await echo()
  const other = await tcpProxy({ port: server.port })
  closers.push(() => other.close())
  expect(other.port).not.toBe(proxy.port)
  return other
}
