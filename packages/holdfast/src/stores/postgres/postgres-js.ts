// The client postgres.js keeps its pool to itself, and opens a connection of its own to listen, which comes back after a loss.
import type { Clock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { ListenEvents, Row, RunOptions, Statement, Wire } from './client.js'
import { failure } from './failure.js'

/** The part of it that runs statements. */
interface PostgresJsQueries {
  unsafe(text: string, values?: never[], options?: { prepare?: boolean }): PromiseLike<readonly Row[]>
}

/** The `sql` of postgres.js 3: only what is called. */
export interface PostgresJs extends PostgresJsQueries {
  (...args: never[]): unknown
  begin(options: string, use: (sql: PostgresJsQueries) => Promise<readonly Row[]>): Promise<unknown>
  listen(
    channel: string,
    onMessage: (payload: string) => void,
    onListening?: () => void,
  ): Promise<{ unlisten(): Promise<void> }>
}

export function postgresJsWire(sql: PostgresJs, clock: Clock): Wire {
  const { max = 10 } = (sql as { options?: { max?: number } }).options ?? {}

  function run<T>(what: string, timeoutMs: number, send: () => PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = clock.setTimer(timeoutMs, () =>
        reject(
          new StoreError(`Postgres did not answer ${what} within ${Math.round(timeoutMs)} ms`, { outcome: 'unknown' }),
        ),
      )
      send().then(
        (value) => {
          timer.cancel()
          resolve(value)
        },
        (error) => {
          timer.cancel()
          reject(failure(error, what, true))
        },
      )
    })
  }

  return {
    connections: max,

    async run({ text, values }: Statement, { what, timeoutMs, isolated, prepared = false }: RunOptions) {
      // One that is not prepared takes two round trips, the first for its types. A `prepare: false` of the user's overrules this.
      const options = { prepare: prepared }
      if (!isolated) return run(what, timeoutMs, () => sql.unsafe(text, values as never[], options))
      const rows = await run(what, timeoutMs, () =>
        sql.begin('isolation level read committed read write', async (tx) =>
          tx.unsafe(text, values as never[], options),
        ),
      )
      return rows as Row[]
    },

    async script(text, { what, timeoutMs }) {
      await run(what, timeoutMs, () => sql.unsafe(text))
    },

    async listen(channel, { onMessage, onLost }: ListenEvents) {
      let open = true
      let times = 0
      try {
        const listening = await sql.listen(
          channel,
          (payload) => open && onMessage(payload),
          () => open && times++ > 0 && onLost(true),
        )
        return {
          close() {
            open = false
            listening.unlisten().then(undefined, () => {})
          },
        }
      } catch (error) {
        open = false
        forget(sql, channel)
        throw failure(error, 'a subscription', false)
      }
    },
  }
}

/**
 * The client keeps a subscription that failed, as it does on a standby, and answers all later ones to the channel with its error, also
 * after the promotion. (Another store with this client and this channel would hear nothing until its own next test of the connection.)
 */
function forget({ listen }: { listen: unknown }, channel: string): void {
  delete (listen as { channels?: Record<string, unknown> }).channels?.[channel]
}
