// A TCP proxy that stands between a client and its server and does what networks do: it goes silent, loses one side, cuts,
// slows down, swallows replies. A test that mocks a socket sees the errors that its author thought of; this one gives the
// client real sockets, which fail as they do.
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { type Clock, systemClock, type Timer } from '../lease/clock.js'

/** Which way bytes go: requests go `toServer`, replies `toClient`. */
export type ProxyDirection = 'toServer' | 'toClient' | 'both'

/** Options of `tcpProxy`. */
export interface TcpProxyOptions {
  /** The server's port. */
  readonly port: number
  /** The server's host. Default `127.0.0.1`. */
  readonly host?: string
  /** Where the proxy listens. Default: a free port of `127.0.0.1`. */
  readonly listenPort?: number
  /** Whose timers slow the bytes down. Default: this machine's. */
  readonly clock?: Clock
}

/** What went through a proxy so far. */
export interface ProxyCounts {
  /** Connections that clients made. */
  readonly accepted: number
  /** Those that are open at this moment. */
  readonly open: number
  /** Those that were reset by `cut`, `refuse`, or since the server could not be reached. */
  readonly reset: number
  /** Bytes that were passed on to the server, and to clients. */
  readonly bytesToServer: number
  readonly bytesToClient: number
  /** Bytes of replies that were read and thrown away. */
  readonly bytesSwallowed: number
}

/** A proxy that runs, with faults to order. All that is ordered holds until `heal`. */
export interface TcpProxy {
  readonly host: string
  readonly port: number
  readonly counts: ProxyCounts
  /** Connections are accepted and stay open, but no byte and no end is passed on: what was sent arrives after `heal`. */
  hang(direction?: ProxyDirection): void
  /**
   * One side of every open connection is gone, and the other is not told: what that one sends vanishes, as towards a machine
   * without power. New connections go through, unless `hang` or `refuse` says otherwise. At `heal` those left over are reset.
   */
  halfOpen(gone: 'server' | 'client'): void
  /** Resets every open connection on both sides, once. */
  cut(): void
  /** Resets every new connection as soon as it is made. */
  refuse(): void
  /** Each chunk is passed on so many ms later; the order is kept. */
  slow(delayMs: number, direction?: ProxyDirection): void
  /** Requests go through, replies are thrown away. At `heal` connections that lost a reply are reset: TCP has no holes. */
  swallowReplies(): void
  /** Ends all faults. */
  heal(): void
  /** Resets what is open, stops listening. */
  close(): Promise<void>
}

/**
 * Starts a TCP proxy to a server. Nothing that its sockets do throws or ends the process; rejects only if it cannot listen.
 *
 * @example
 * ```ts
 * import { connect, createServer } from 'node:net'
 * import { tcpProxy } from 'holdfast/testing/proxy'
 *
 * const server = createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1', async () => {
 *   const { port } = server.address() as { port: number }
 *   const proxy = await tcpProxy({ port })
 *   proxy.slow(20, 'toClient') // replies take 20 ms longer
 *   const client = connect(proxy.port, proxy.host).on('data', async () => {
 *     proxy.cut() // the client's next event is an error: ECONNRESET
 *     await proxy.close()
 *     server.close()
 *   })
 *   client.on('error', () => {}).write('hello')
 * })
 * ```
 */
export async function tcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const proxy = new RunningProxy(options)
  await proxy.listen(options.listenPort ?? 0)
  return proxy
}

const LISTEN_HOST = '127.0.0.1'

/** What is ordered for one direction. */
interface Way {
  hung: boolean
  delayMs: number
  swallow: boolean
}

const clear = (): Way => ({ hung: false, delayMs: 0, swallow: false })

class RunningProxy implements TcpProxy {
  readonly host = LISTEN_HOST
  port = 0
  readonly clock: Clock
  readonly toServer = clear()
  readonly toClient = clear()
  readonly #options: TcpProxyOptions
  readonly #server: Server
  readonly #links = new Set<Link>()
  readonly #counts = { accepted: 0, reset: 0, bytesToServer: 0, bytesToClient: 0, bytesSwallowed: 0 }
  #refusing = false

  constructor(options: TcpProxyOptions) {
    this.#options = options
    this.clock = options.clock ?? systemClock
    // Half-open allowed: an end is passed on by hand, when its turn comes.
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client))
  }

  listen(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, LISTEN_HOST, () => {
        this.#server.off('error', reject)
        this.#server.on('error', () => {}) // such as too many open files: the client's trouble, not the test's end
        const address = this.#server.address()
        if (typeof address === 'object' && address !== null) this.port = address.port
        resolve()
      })
    })
  }

  get counts(): ProxyCounts {
    return { ...this.#counts, open: this.#links.size }
  }

  hang(direction: ProxyDirection = 'both'): void {
    for (const way of this.#ways(direction)) way.hung = true
    this.#changed()
  }

  halfOpen(gone: 'server' | 'client'): void {
    for (const link of this.#links) link.lose(gone)
  }

  cut(): void {
    for (const link of [...this.#links]) link.reset()
  }

  refuse(): void {
    this.#refusing = true
  }

  slow(delayMs: number, direction: ProxyDirection = 'both'): void {
    for (const way of this.#ways(direction)) way.delayMs = delayMs
    this.#changed()
  }

  swallowReplies(): void {
    this.toClient.swallow = true
    this.#changed()
  }

  heal(): void {
    this.#refusing = false
    Object.assign(this.toServer, clear())
    Object.assign(this.toClient, clear())
    for (const link of [...this.#links]) {
      if (link.broken) link.reset()
    }
    this.#changed()
  }

  close(): Promise<void> {
    this.cut()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }

  /** A connection is over. */
  ended(link: Link, wasReset: boolean): void {
    if (this.#links.delete(link) && wasReset) this.#counts.reset++
  }

  count(what: 'bytesToServer' | 'bytesToClient' | 'bytesSwallowed', bytes: number): void {
    this.#counts[what] += bytes
  }

  #accept(client: Socket): void {
    client.on('error', () => {})
    this.#counts.accepted++
    if (this.#refusing) {
      this.#counts.reset++
      client.resetAndDestroy()
      return
    }
    const { host = LISTEN_HOST, port } = this.#options
    this.#links.add(new Link(this, client, dial({ host, port, allowHalfOpen: true })))
  }

  #ways(direction: ProxyDirection): Way[] {
    if (direction === 'both') return [this.toServer, this.toClient]
    return [this[direction]]
  }

  #changed(): void {
    for (const link of this.#links) link.pump()
  }
}

/** One client's connection and the one to the server that belongs to it. */
class Link {
  /** It cannot go on after `heal`: a side is gone, or bytes are missing. */
  broken = false
  readonly #proxy: RunningProxy
  readonly #client: Socket
  readonly #server: Socket
  readonly #requests: Pipe
  readonly #replies: Pipe

  constructor(proxy: RunningProxy, client: Socket, server: Socket) {
    this.#proxy = proxy
    this.#client = client
    this.#server = server
    const report = (what: 'bytesToServer' | 'bytesToClient') => (bytes: number, swallowed: boolean) => {
      if (swallowed) this.broken = true
      proxy.count(swallowed ? 'bytesSwallowed' : what, bytes)
    }
    this.#requests = new Pipe(proxy.clock, proxy.toServer, client, server, report('bytesToServer'))
    this.#replies = new Pipe(proxy.clock, proxy.toClient, server, client, report('bytesToClient'))
    client.on('error', () => this.#failed(proxy.toServer))
    server.on('error', () => this.#failed(proxy.toClient))
    client.on('close', () => this.#closed())
    server.on('close', () => this.#closed())
  }

  pump(): void {
    this.#requests.pump()
    this.#replies.pump()
  }

  /** One side is gone: its socket goes, the other stays and hears nothing. */
  lose(gone: 'server' | 'client'): void {
    this.broken = true
    this.#requests.drop()
    this.#replies.drop()
    destroy(gone === 'server' ? this.#server : this.#client)
  }

  reset(): void {
    this.#requests.drop()
    this.#replies.drop()
    for (const socket of [this.#client, this.#server]) destroy(socket)
    this.#proxy.ended(this, true)
  }

  /** A socket broke. The other side learns of it, unless nothing comes through that way. */
  #failed(way: Way): void {
    if (way.hung) this.broken = true
    if (!this.broken) this.reset()
  }

  #closed(): void {
    if (this.#client.closed && this.#server.closed) this.#proxy.ended(this, false)
  }
}

/** One direction of a connection: what is read waits here until it may be written. */
class Pipe {
  readonly #clock: Clock
  readonly #way: Way
  readonly #from: Socket
  readonly #to: Socket
  readonly #report: (bytes: number, swallowed: boolean) => void
  /** Chunks that were read, and when they may go; the empty one is the end. */
  readonly #queue: { readonly chunk: Buffer | undefined; readonly readMonoMs: number }[] = []
  #timer: Timer | undefined
  #dropping = false

  constructor(clock: Clock, way: Way, from: Socket, to: Socket, report: (bytes: number, swallowed: boolean) => void) {
    this.#clock = clock
    this.#way = way
    this.#from = from
    this.#to = to
    this.#report = report
    from.on('data', (chunk: Buffer) => this.#read(chunk))
    from.on('end', () => this.#read(undefined))
    to.on('drain', () => this.pump())
    if (way.hung) from.pause()
  }

  /** Whatever comes vanishes from now on. */
  drop(): void {
    this.#dropping = true
    this.#queue.length = 0
    this.#timer?.cancel()
    this.#from.resume()
  }

  /** Passes on what may go. */
  pump(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#dropping) return
    if (this.#way.hung) {
      this.#from.pause()
      return
    }
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const waitMs = next.readMonoMs + this.#way.delayMs - this.#clock.monoMs()
      if (waitMs > 0) {
        this.#timer = this.#clock.setTimer(waitMs, () => this.pump())
        break
      }
      this.#queue.shift()
      this.#write(next.chunk)
    }
    if (this.#to.writableNeedDrain) this.#from.pause()
    else this.#from.resume()
  }

  #read(chunk: Buffer | undefined): void {
    if (this.#dropping) return
    this.#queue.push({ chunk, readMonoMs: this.#clock.monoMs() })
    this.pump()
  }

  #write(chunk: Buffer | undefined): void {
    this.#report(chunk?.length ?? 0, this.#way.swallow)
    if (this.#way.swallow || !this.#to.writable) return
    if (chunk === undefined) this.#to.end()
    else this.#to.write(chunk)
  }
}

/** A reset where there is a connection to reset. */
function destroy(socket: Socket): void {
  if (socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}
