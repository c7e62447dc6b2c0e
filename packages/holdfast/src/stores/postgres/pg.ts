// With pg (node-postgres) a connection is taken from the pool for one statement and given back, so it is known whether a failed one had
// been sent; one that hangs is ended, so that the pool can open another in its place.
import type { Clock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { ListenEvents, Row, RunOptions, Statement, Wire } from './client.js'
import { failure } from './failure.js'
import { hashed } from './names.js'

/** A statement as pg takes it; with a name, it is parsed once for each connection. */
type Query = { text: string; values: unknown[]; name?: string }

/** A connection of pg: only what is called. */
export interface PgConnection {
  query(query: string | Query): Promise<{ rows: Row[] } | { rows: Row[] }[]>
  on(event: 'error' | 'end' | 'notification', listener: (...args: never[]) => void): unknown
}

/** A Pool of pg, or what does as it does. */
export interface PgPool {
  connect(): Promise<PgConnection & { release(destroy?: boolean): void }>
  query(text: string, values?: unknown[]): Promise<{ rows: Row[] }>
}

/** A client of its own. */
interface PgClient extends PgConnection {
  connect(): Promise<unknown>
  end(): Promise<unknown>
  readonly connection?: { readonly stream?: { destroy?(): unknown } }
}

/** What a Pool of pg has beside, and others may lack. */
interface PgPoolMore {
  readonly options?: { readonly max?: number }
  readonly Client?: new (options: unknown) => PgClient
  on?(event: 'error', listener: () => void): unknown
  listenerCount?(event: 'error'): number
}

/** Connections that have been given a listener for errors: one each, however many stores use them. */
const heeded = new WeakSet<object>()

type PooledConnection = Awaited<ReturnType<PgPool['connect']>>
type Taken = (error: unknown, connection: PooledConnection | undefined) => void

/** How long a connection that is to listen may take: one that is never answered would keep all others from being tried. */
const LISTEN_MS = 5_000

const BEGIN = 'begin isolation level read committed read write'

export function pgWire(pool: PgPool, clock: Clock): Wire {
  const { options, Client, on, listenerCount } = pool as PgPool & PgPoolMore
  // A pool tells of idle connections that broke, and ends the process when nobody listens. It has dropped them by then.
  if (typeof on === 'function' && listenerCount?.call(pool, 'error') === 0) on.call(pool, 'error', () => {})

  /** Runs on one connection; after `timeoutMs` it is given up, and the connection ended. */
  function run<T>(what: string, timeoutMs: number, use: (connection: PooledConnection) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let connection: PooledConnection | undefined
      let over = false
      const timer = clock.setTimer(timeoutMs, () => {
        over = true
        connection?.release(true)
        reject(
          connection === undefined
            ? new StoreError(
                `${what} was not sent: the pool had no connection within ${Math.round(timeoutMs)} ms: make it bigger, or hold connections for less time`,
                { outcome: 'none' },
              )
            : new StoreError(`Postgres did not answer ${what} within ${Math.round(timeoutMs)} ms`, {
                outcome: 'unknown',
              }),
        )
      })
      const failed = (error: unknown) => {
        if (over) return
        timer.cancel()
        reject(failure(error, what, connection !== undefined))
      }
      connected(pool).then((given) => {
        if (over) return given.release()
        connection = given
        use(given).then(
          (value) => {
            if (over) return
            timer.cancel()
            given.release()
            resolve(value)
          },
          (error) => {
            if (over) return
            const broken = !isServerError(error)
            given.release(broken)
            failed(error)
          },
        )
      }, failed)
    })
  }

  const names = new Map<string, string>()
  function nameOf(text: string): string {
    let name = names.get(text)
    if (name === undefined) {
      name = hashed(text)
      names.set(text, name)
    }
    return name
  }

  async function isolated(connection: PooledConnection, query: Query): Promise<Row[]> {
    try {
      await connection.query(BEGIN)
      const { rows } = (await connection.query(query)) as { rows: Row[] }
      await connection.query('commit')
      return rows
    } catch (error) {
      if (isServerError(error)) await connection.query('rollback')
      throw error
    }
  }

  return {
    connections: options?.max ?? 10,

    run({ text, values }: Statement, options: RunOptions) {
      return run(options.what, options.timeoutMs, async (connection) => {
        const query: Query = { text, values: values as unknown[] }
        if (options.prepared) query.name = nameOf(text)
        if (options.isolated) return isolated(connection, query)
        return ((await connection.query(query)) as { rows: Row[] }).rows
      })
    },

    async script(text, { what, timeoutMs }) {
      await run(what, timeoutMs, (connection) => connection.query(text))
    },

    async listen(channel: string, { onMessage, onLost }: ListenEvents) {
      let open = true
      let late = false
      let end = () => {}
      const timer = clock.setTimer(LISTEN_MS, () => {
        late = true
        end()
      })
      timer.keepAlive(false)
      const lost = () => {
        if (open) onLost(false)
        open = false
      }
      const listenOn = async (connection: PgConnection) => {
        connection.on('error', lost)
        connection.on('end', lost)
        connection.on('notification', ((message: { channel: string; payload?: string }) => {
          if (open && message.channel === channel) onMessage(message.payload ?? '')
        }) as never)
        await connection.query(`listen "${channel}"`)
        ;(connection as { unref?: () => void }).unref?.()
        return {
          close() {
            open = false
            end()
          },
        }
      }
      try {
        // Beside the pool: a connection that listens for ever must not be missing there.
        if (typeof Client === 'function') {
          const connection = new Client(options)
          connection.on('error', () => {})
          end = () => {
            const { stream } = connection.connection ?? {}
            // A goodbye would not be answered either, and pg tells nobody of a connection that ends after it.
            if (late && stream?.destroy !== undefined) stream.destroy()
            else void connection.end().catch(() => {})
          }
          await connection.connect()
          return await listenOn(connection)
        }
        const connection = await connected(pool)
        end = () => connection.release(true)
        return await listenOn(connection)
      } catch (error) {
        open = false
        if (!late) end() // a standby takes the connection, and refuses the subscription
        throw failure(error, 'a subscription', false)
      } finally {
        timer.cancel()
      }
    },
  }
}

/**
 * Takes it from the pool's callback where there is one: what a server says as it dies can stand right behind its greeting, before a
 * promise is heard.
 */
function connected(pool: PgPool): Promise<PooledConnection> {
  return new Promise((resolve, reject) => {
    const take = (connection: PooledConnection) => {
      if (!heeded.has(connection)) {
        heeded.add(connection)
        connection.on('error', () => {}) // the statement that is under way rejects as well
      }
      resolve(connection)
    }
    const connect = pool.connect as (callback: Taken) => Promise<PooledConnection> | undefined
    connect
      .call(pool, (error, connection) => (connection === undefined ? reject(error) : take(connection)))
      ?.then(take, reject)
  })
}

/** Whether the server reported an error and goes on: the connection is as good as before. */
function isServerError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^(08|57P|25P03|XX)/.test(code)
}
