// The network between the members of a cluster, which a test can cut. Members dial each other at the ports of these proxies. Who has
// dialed says so in each request (X-Server-From), so that one member can be cut off both ways while the others still hear each other.
import { createServer, connect as dial, type Server, type Socket } from 'node:net'

const HOST = '127.0.0.1'
const FROM = /x-server-from: *([0-9a-f]+)/i

interface Link {
  /** The id of the member that dialed, as soon as it has said so. */
  from: string
  readonly to: number
  readonly ends: readonly Socket[]
}

export class PeerNetwork {
  /** Where each member is dialed. */
  readonly ports: readonly number[]
  readonly #servers: readonly Server[]
  readonly #links = new Set<Link>()
  /** The members' ids, as hexadecimal digits. */
  #ids: readonly string[] = []
  #cutOff: ReadonlySet<number> = new Set()

  private constructor(servers: readonly Server[]) {
    this.#servers = servers
    this.ports = servers.map((server) => (server.address() as { port: number }).port)
  }

  /** Proxies to where the members listen. */
  static async start(listening: readonly number[]): Promise<PeerNetwork> {
    const accepting: { network?: PeerNetwork } = {}
    const servers = await Promise.all(
      listening.map(
        (port, to) =>
          new Promise<Server>((resolve, reject) => {
            const server = createServer((socket) => accepting.network?.accept(socket, to, port))
            server.once('error', reject)
            server.listen(0, HOST, () => resolve(server))
          }),
      ),
    )
    accepting.network = new PeerNetwork(servers)
    return accepting.network
  }

  knows(ids: readonly string[]): void {
    this.#ids = ids
  }

  /** Nothing reaches these members any more, and nothing that they send reaches another. */
  cutOff(...members: readonly number[]): void {
    this.#cutOff = new Set(members)
    for (const link of this.#links) if (this.#isCut(link)) end(link)
  }

  heal(): void {
    this.#cutOff = new Set()
  }

  async close(): Promise<void> {
    for (const link of this.#links) end(link)
    await Promise.all(this.#servers.map((server) => new Promise((closed) => server.close(closed))))
  }

  #isCut({ from, to }: Link): boolean {
    return this.#cutOff.has(to) || this.#cutOff.has(this.#ids.indexOf(from))
  }

  accept(near: Socket, to: number, port: number): void {
    const far = dial(port, HOST)
    const link: Link = { from: '', to, ends: [near, far] }
    this.#links.add(link)
    for (const socket of link.ends) {
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#links.delete(link)
        end(link)
      })
    }
    near.on('data', (bytes: Buffer) => {
      if (link.from === '') link.from = FROM.exec(bytes.toString('latin1'))?.[1] ?? ''
      if (this.#isCut(link)) end(link)
      else far.write(bytes)
    })
    far.on('data', (bytes: Buffer) => near.write(bytes))
    if (this.#isCut(link)) end(link)
  }
}

function end({ ends }: Link): void {
  for (const socket of ends) socket.destroy()
}
