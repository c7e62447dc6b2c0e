// The Postgres store under the whole suite behind PgBouncer, which gives each transaction another connection: statements go
// through it, and only the one connection that listens goes to the server itself.
import { clientKind, pgPool } from '../postgres/clients.js'
import { postgresConformance } from '../postgres/conformance.js'
import { PgBouncer, PostgresServer } from '../postgres/servers.js'

interface Servers {
  readonly server: PostgresServer
  readonly bouncer: PgBouncer
}

const servers = {
  async start(): Promise<Servers> {
    const server = await PostgresServer.start()
    return { server, bouncer: await PgBouncer.start(server) }
  },
  async stop({ server, bouncer }: Servers): Promise<void> {
    await bouncer.stop()
    await server.stop()
  },
}

/** Five connections for all cases at once: terms that the making of their tables does not overrun. */
const TTL_MS = 2_500

const connect = ({ server, bouncer }: Servers) => {
  const through = clientKind('pg').open(bouncer.url, 20)
  const direct = pgPool(server.url, { max: 2 })
  return {
    client: through.client,
    options: { listen: direct },
    close: () => Promise.all([through.close(), direct.end()]),
  }
}

postgresConformance('postgres behind PgBouncer', servers, connect, TTL_MS)
