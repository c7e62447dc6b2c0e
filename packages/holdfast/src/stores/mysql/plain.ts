// The plain cases of acquire and release, in one statement without a procedure, alone or many together: of a key that this process has
// given back itself, nobody waiting, so that its row is there and most likely free. A statement is a transaction of its own; its WHERE says
// when it decides as a step would, and of every other key it changes nothing and the procedure is called. It waits for no lock, so its
// clock, which is read when it starts, stands for when it decides. Only in MariaDB, which can tell one statement not to wait; and only in
// a session that commits by itself, which its answer tells.
import type { Clock } from '../../lease/clock.js'
import type { AcquireRequest, CallOptions } from '../../store/contract.js'
import { Gathered } from '../../store/gather.js'
import { errnoOf } from './failure.js'
import { CALL_MS } from './lane.js'
import type { Names } from './names.js'
import type { Server, Value } from './server.js'
import { NOW } from './steps.js'
import { bytesOf } from './wire.js'

/** What came of one operation: it was done (an acquire gives its token), it was not, or that cannot be told. */
export type Told = number | 'no' | 'perhaps'

const NO_WAIT = 'SET STATEMENT innodb_lock_wait_timeout = 0 FOR'

/** Flags of the server's answer. */
const IN_TRANSACTION = 1
const AUTOCOMMIT = 2

/**
 * So many keys a statement is made for. A number between is filled up by repeating the last: the server keeps a prepared statement for
 * each text and connection, and has a limit for all of them together.
 */
const SIZES = [1, 4, 16, 64]

/** How many statements of a verb are under way: while one is committed, the next are made. */
const STATEMENTS = 3

const KNOWN_MAX = 10_000

interface Header {
  readonly affectedRows: number
  readonly insertId: number | string
  readonly serverStatus: number
}

interface Claimed {
  readonly key: string
  readonly claim: string
}

export class Plain {
  readonly #server: Server
  readonly #acquires: Gathered<AcquireRequest, Told>
  readonly #releases: Gathered<Claimed, Told>
  readonly #known = new Set<string>()
  #fits: boolean | undefined

  constructor(server: Server, names: Names, clock: Clock) {
    this.#server = server
    const texts = textsOf(names.leases)
    const common = {
      keyOf: ({ key }: Claimed) => key,
      blamesOne: () => false,
      clock,
      statements: STATEMENTS,
      operations: SIZES.at(-1) ?? 1,
    }
    this.#acquires = new Gathered<AcquireRequest, Told>({
      ...common,
      send: (requests, timeoutMs) => this.#acquire(requests, texts.acquires, timeoutMs),
    })
    this.#releases = new Gathered<Claimed, Told>({
      ...common,
      send: (claims, timeoutMs) => {
        const { text, filled } = fitting(texts.releases, claims)
        const values: Value[] = []
        for (const { key, claim } of filled) values.push(bytesOf(key), bytesOf(claim))
        return this.#run('a release', text, values, timeoutMs, (header) => this.#told(claims, header, 1))
      },
    })
  }

  /** Whether the acquire may be tried in this way. */
  takes({ key, replaces, tokenFloor, meta = null }: AcquireRequest): boolean {
    return this.knows(key) && replaces === undefined && tokenFloor === undefined && meta === null
  }

  /** Whether the release may be tried in this way. */
  knows(key: string): boolean {
    return this.#known.has(key) && this.#isFit()
  }

  acquire(request: AcquireRequest, call: CallOptions | undefined): Promise<Told> {
    return this.#acquires.ask(request, call)
  }

  release(claimed: Claimed, call: CallOptions | undefined): Promise<Told> {
    return this.#releases.ask(claimed, call)
  }

  /** A procedure has released the key, and nobody waits for it. */
  freed(key: string): void {
    if (this.#known.size >= KNOWN_MAX) for (const first of this.#known) if (this.#known.delete(first)) break
    this.#known.add(key)
    this.#isFit()
  }

  /** One statement for those that have term and holder of the first in common. */
  #acquire(
    requests: readonly AcquireRequest[],
    texts: readonly string[],
    timeoutMs: number | undefined,
  ): Promise<Told[]> {
    const { ttlMs = 0, holder = '' } = requests[0] ?? {}
    const same =
      requests.length === 1
        ? requests
        : requests.filter((request) => request.ttlMs === ttlMs && request.holder === holder)
    const { text, filled } = fitting(texts, same)
    const keys: Value[] = []
    const claims: Value[] = []
    for (const { key, claim } of filled) {
      keys.push(bytesOf(key))
      claims.push(bytesOf(claim))
    }
    const values: Value[] = filled.length === 1 ? [] : [...keys]
    values.push(...claims, bytesOf(holder), ttlMs, ttlMs, ...keys, ...claims)
    return this.#run('an acquire', text, values, timeoutMs, (header) => {
      const told = this.#told(same, header, Number(header?.insertId))
      if (same.length === requests.length) return told
      let next = 0
      return requests.map((request) => (request === same[next] ? (told[next++] ?? 'no') : 'no'))
    })
  }

  /** All were done, or none, or nobody knows which. */
  #told(ops: readonly Claimed[], header: Header | undefined, done: number): Told[] {
    const count = header?.affectedRows ?? 0
    if (count === ops.length) return ops.map(() => done)
    for (const { key } of ops) this.#known.delete(key)
    return ops.map(() => (count === 0 ? 'no' : 'perhaps'))
  }

  /** Known after the first question: until then, and while it cannot be told, the procedures do all. */
  #isFit(): boolean {
    if (this.#fits === undefined) {
      this.#fits = false
      this.#server.version(VERSION_MS).then(
        (version) => {
          this.#fits = /mariadb/i.test(version)
        },
        () => {
          this.#fits = undefined
        },
      )
    }
    return this.#fits
  }

  /** Runs a statement. `tell` reads its answer: undefined when it is for the procedure to do. */
  #run(
    what: string,
    sql: string,
    values: Value[],
    timeoutMs = CALL_MS,
    tell: (header: Header | undefined) => Told[],
  ): Promise<Told[]> {
    let commits = false
    const check = (answer: unknown) => {
      const { serverStatus } = answer as Header
      commits = (serverStatus & (IN_TRANSACTION | AUTOCOMMIT)) === AUTOCOMMIT
      // Whatever it did would be committed by somebody else, or never: ended, the session undoes it.
      if (!commits) this.#fits = false
      return commits
    }
    return this.#server.change(what, timeoutMs, sql, values, check).then(
      (answer) => tell(commits ? (answer as Header) : undefined),
      (error: unknown) => {
        const errno = errnoOf(error)
        if (errno !== undefined && NOT_PLAIN.has(errno)) return tell(undefined)
        throw error
      },
    )
  }
}

/** The statement that is made for at least so many, and what it is filled with. */
function fitting<T>(texts: readonly string[], ops: readonly T[]): { text: string; filled: readonly T[] } {
  if (ops.length === 1) return { text: texts[0] ?? '', filled: ops }
  const place = SIZES.findIndex((size) => size >= ops.length)
  const filled = [...ops]
  while (filled.length < (SIZES[place] ?? 0)) filled.push(ops.at(-1) as T)
  return { text: texts[place] ?? '', filled }
}

/**
 * For each size, the text. Left to itself the server may read the whole of a small table, or go by the other index, and lock what is none
 * of the statement's affair.
 */
function textsOf(table: string): { acquires: string[]; releases: string[] } {
  const update = `${NO_WAIT} UPDATE ${table} FORCE INDEX (PRIMARY) SET`
  const acquire = (claim: string, keys: string, fresh: string) =>
    short(`${update} token = LAST_INSERT_ID(${NOW}), claim = ${claim}, holder = ?, ttl_ms = ?, granted_us = ${NOW},
      expires_us = ${NOW} + ? * 1000, revoked = 0, changes = changes + 1, meta = NULL
      WHERE ${keys} AND token < ${NOW} AND expires_us <= ${NOW} AND ${fresh} AND more = 0`)
  const release = (claims: string) =>
    short(`${update} last_ended = claim, expires_us = ${NOW}, revoked = 0, claim = ''
      WHERE ${claims} AND expires_us > ${NOW} AND more = 0`)
  const many = (size: number, mark = '?') => new Array(size).fill(mark).join(', ')
  return {
    acquires: SIZES.map((size) =>
      size === 1
        ? acquire('?', 'lease_key = ?', 'last_ended <> ?')
        : acquire(
            `ELT(FIELD(lease_key, ${many(size)}), ${many(size)})`,
            `lease_key IN (${many(size)})`,
            `last_ended NOT IN (${many(size)})`,
          ),
    ),
    releases: SIZES.map((size) =>
      release(size === 1 ? 'lease_key = ? AND claim = ?' : `(lease_key, claim) IN (${many(size, '(?, ?)')})`),
    ),
  }
}

/** mysql2 looks a prepared statement up by its text, whose length it pays for each time. */
const short = (sql: string) => sql.replaceAll(/\s+/g, ' ')

const VERSION_MS = 5_000

/** Locked or undone for another's sake, not made yet, too many statements prepared, or a session that only reads: the procedure's affair. */
const NOT_PLAIN = new Set([1205, 1213, 1020, 1146, 1461, 1792])
