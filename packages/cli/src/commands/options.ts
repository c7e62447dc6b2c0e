// What several commands share: the store option, the duration option, and how failures become one line and an exit code.
import type { Command } from 'commander'
import type { LeaseStore } from 'holdfast'
import { HoldfastError, InvalidArgumentError } from 'holdfast'
import { connectAs } from '../connect.js'
import { CliError, EXIT, messageOf } from '../exit.js'

/** Options of every command that works on one store. */
export interface StoreOptions {
  store?: string
}

export const STORE_HELP =
  'where leases are kept, such as sqlite:./leases.db or redis://host (else HOLDFAST_STORE, else a file of this user)'

export const withStore = (command: Command): Command => command.option('--store <url>', STORE_HELP)

/** Opens the store, does the work and closes the store, whatever happens. */
export async function withOpenStore<Value>(
  options: StoreOptions,
  work: (store: LeaseStore) => Promise<Value>,
): Promise<Value> {
  const { store } = await connectAs(options.store)
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** Any failure as what a person is told, and the code of the exit. */
export function asCliError(error: unknown): CliError {
  if (error instanceof CliError) return error
  const cause = { cause: error }
  if (error instanceof InvalidArgumentError)
    return new CliError(EXIT.usage, `${nameOf(error.option)} ${error.message.slice(error.option.length + 1)}`, cause)
  if (error instanceof HoldfastError) {
    const code = error.code === 'LEASE_HELD' ? EXIT.held : error.code === 'LEASE_LOST' ? EXIT.lost : EXIT.unavailable
    return new CliError(error.code === 'INVARIANT' ? EXIT.internal : code, error.message, cause)
  }
  return new CliError(EXIT.internal, messageOf(error), cause)
}

/** How the command line calls what the library calls otherwise. */
const nameOf = (option: string) =>
  ({ key: 'KEY', holder: '--holder', ttlMs: '--ttl', waitMs: '--wait', minHoldMs: '--min-hold' })[option] ?? option
