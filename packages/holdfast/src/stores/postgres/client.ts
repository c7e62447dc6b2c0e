// The user's client, told apart by what it is: a Pool of pg, or anything with its `connect`; or the `sql` of postgres.js. No types of
// theirs are imported, so that nobody needs a client that he does not use.
import type { Clock } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import { type PgPool, pgWire } from './pg.js'
import { type PostgresJs, postgresJsWire } from './postgres-js.js'

/** A Pool of pg (node-postgres) 8, or the `sql` of postgres.js 3: only what is called. */
export type PostgresClient = PgPool | PostgresJs

/** A statement with its values: texts, numbers and truth values; null stands for itself. */
export interface Statement {
  readonly text: string
  readonly values: readonly (string | number | boolean | null)[]
}

export type Row = Readonly<Record<string, unknown>>

/** How a statement is to be run. */
export interface RunOptions {
  /** How it is called in errors. */
  readonly what: string
  /** When the caller gives up: nothing hangs longer than that. */
  readonly timeoutMs: number
  /** In a transaction that is READ COMMITTED and READ WRITE whatever the session's defaults. */
  readonly isolated: boolean
  /** Parsed once for each connection, under a name of its own. */
  readonly prepared?: boolean
}

/** What the store needs of a client, said once for both kinds. Rejects with StoreErrors. */
export interface Wire {
  /** How many connections the pool has at most. */
  readonly connections: number
  run(statement: Statement, options: RunOptions): Promise<readonly Row[]>
  /** Several statements without values, as one transaction. */
  script(text: string, options: Omit<RunOptions, 'isolated' | 'prepared'>): Promise<void>
  /** A connection of its own that listens. Resolves when it does. */
  listen(channel: string, events: ListenEvents): Promise<Listening>
}

export interface ListenEvents {
  onMessage(payload: string): void
  /** The connection is lost. What is said from now on is not heard; `heardAgain`: until now, it has come back by itself. */
  onLost(heardAgain: boolean): void
}

export interface Listening {
  close(): void
}

const EXPECTED = 'must be a Pool of pg (new Pool(...)), or the sql of postgres.js (postgres(...))'

/** Tells the clients apart. Throws InvalidArgumentError, naming the option, for what is neither. */
export function wireOf(client: unknown, clock: Clock, option = 'client'): Wire {
  if (typeof client === 'function' && has(client, 'unsafe', 'begin', 'listen')) {
    return postgresJsWire(client as unknown as PostgresJs, clock)
  }
  if (typeof client === 'object' && client !== null && has(client, 'connect', 'query')) {
    if (has(client, 'escapeLiteral') || 'connectionParameters' in client) {
      throw new InvalidArgumentError(
        option,
        client,
        `${EXPECTED}, and not a single Client: a transaction that the application opens on it would take the leases in`,
      )
    }
    return pgWire(client as PgPool, clock)
  }
  throw new InvalidArgumentError(option, client, option === 'client' ? EXPECTED : `${EXPECTED}; or false`)
}

const has = (client: object, ...methods: string[]) =>
  methods.every((name) => typeof (client as Record<string, unknown>)[name] === 'function')
