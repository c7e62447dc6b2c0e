// The Postgres store under the whole suite on one server, with pg and postgres.js.
import { clientKinds } from '../postgres/clients.js'
import { postgresConformance } from '../postgres/conformance.js'
import { PostgresServer } from '../postgres/servers.js'

const servers = { start: () => PostgresServer.start(), stop: (server: PostgresServer) => server.stop() }

for (const kind of clientKinds) postgresConformance(`postgres, ${kind.name}`, servers, ({ url }) => kind.open(url))
