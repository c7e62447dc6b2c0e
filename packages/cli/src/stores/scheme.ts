// What each kind of store is to the command line: one file beside this one for each technology, that reads URLs of its schemes
// and opens them. Whatever it opened is closed by `store.close()`, so that no command can forget it.
import type { LeaseStore } from 'holdfast'
import type { Registers } from '../demo/registers.js'
import type { ClockReading } from '../doctor/clock.js'
import type { Finding } from '../doctor/finding.js'

/** How stores of one technology are named, and who opens them. */
export interface Scheme {
  /** The schemes of its URLs, in lower case, without the colon. */
  readonly names: readonly string[]
  /** How a URL looks, for help and messages. */
  readonly forms: readonly string[]
  /** The file of the technology, read only when it is needed: each brings a client, and together they would cost a second. */
  load(): Promise<{ readonly open: Open }>
}

/**
 * Reads the URL and makes ready what it names; no server need be there yet. Throws `CliError` 64 for a URL that cannot be right.
 * No message repeats what may be a secret. `openOther` opens a store that this one is made of.
 */
export type Open = (url: string, openOther: (url: string) => Promise<Connection>) => Connection | Promise<Connection>

/** A store as the command line uses it. */
export interface Connection {
  /** `close` also closes the clients that were opened for it. */
  readonly store: LeaseStore
  /** The URL without secrets, for people. */
  readonly shown: string
  /**
   * Resolves when commands can be sent, in bounded time: throws `CliError` 69 that says why they cannot. Until then, and when a
   * connection breaks later, the client goes on trying in the background.
   */
  ready?(): Promise<void>
  /** The two registers of the demo, kept in this technology behind its own fence. `name`: unique to this run. */
  registers?(place: RegisterPlace): Promise<Registers>
  /** What the settings of the servers do to the promises. To be asked after `ready`; of a quorum, also when it is not. */
  doctor?(): Promise<Finding[]>
  /** The clock of the server against that of this machine; undefined when it may not be asked. */
  clock?(): Promise<ClockReading | undefined>
  /** Whether `doctor` has something to say when the store cannot be reached. */
  readonly doctorWhenDown?: boolean
}

/** Where the demo keeps its registers. */
export interface RegisterPlace {
  /** What all of it is to be named after: unique to this run. */
  readonly name: string
  /** A folder that is removed afterwards. */
  readonly folder: string
}

/** The store with an end of its own: it closes what was opened for it, also when the store itself fails to close. */
export function owning<Store extends LeaseStore>(store: Store, end: () => Promise<void> | void): Store {
  let closed: Promise<void> | undefined
  const close = async () => {
    try {
      await store.close()
    } finally {
      await end()
    }
  }
  return {
    ...store,
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
