// Records in Redis, decided by the server's clock. A record is kept until its retention is over, then Redis forgets it by itself; a
// running record is kept as long beyond its term, since a run that crashed must not look like one that never was.
import type { Begun, End, Records, RecordsCapabilities, RecordView, StoredEnd } from '../../idempotency/contract.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { checkKey, KEY_BYTES_MAX } from '../../lease/keys.js'
import { type RedisClient, wireOf } from './client.js'
import { recordScripts } from './records-lua.js'
import { Server } from './server.js'
import { SHARED_MAX, Shared } from './share.js'
import { slotOf } from './slot.js'

/** What `redisRecords` takes beside the client. */
export interface RedisRecordsOptions {
  /** What the keys begin with in Redis: default `holdfast-record:`. */
  readonly prefix?: string
  /** So many replicas have to confirm each claim and each record (WAIT). Default 0. */
  readonly replicas?: number
  /** How long they may take, in ms. Default 1,000. */
  readonly replicasTimeoutMs?: number
}

/** What records in Redis can do and promise, as data. They outlive a restart as far as Redis is told to keep its data. */
export const redisRecordsCapabilities: RecordsCapabilities = {
  clock: 'server',
  survives: ['client restart'],
  keyBytesMax: KEY_BYTES_MAX,
}

type Verb = keyof typeof recordScripts

/** One verb on one key. */
interface Operation {
  readonly what: string
  readonly verb: Verb
  readonly key: string
  readonly args: readonly (string | number)[]
  readonly confirm: boolean
}

/** A result of more characters is sent by itself. */
const LARGE = 4_096

const ENDS = { forgotten: '0', unknown: '1', returned: '2', threw: '3' } as const
const STATES = ['free', 'running', 'done', 'done', 'unknown'] as const

/**
 * Records of `once` in Redis 6.2 or newer, through the application's own client. They must not be evicted (`maxmemory-policy
 * noeviction`), and a fail-over may lose the last ones unless `replicas` confirm them.
 *
 * Throws InvalidArgumentError for what is no client of ioredis or node-redis.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis'
 * const records = redisRecords(new Redis())
 * const options = { key: 'order-1', fingerprint: fingerprintOf({ amount: 100 }) }
 * const receipt = await once(records, options, () => charge(100))
 * ```
 */
export function redisRecords(client: RedisClient, options: RedisRecordsOptions = {}): Records {
  const wire = wireOf(client)
  const { prefix = 'holdfast-record:', replicas = 0, replicasTimeoutMs = 1_000 } = options
  checkKey('prefix', prefix, 128)
  whole('replicas', replicas, 0)
  whole('replicasTimeoutMs', replicasTimeoutMs, 1)
  const server = new Server({ wire, replicas, replicasTimeoutMs })
  let closed = false

  function send(ops: readonly Operation[]): Promise<unknown> {
    const { what = '', verb = 'inspect', confirm = false } = ops[0] ?? {}
    const keys = ops.map(({ key }) => prefix + key)
    const args = ops.flatMap((op) => op.args.map(String))
    return server.run(what, () => recordScripts[verb], keys, args, { operations: ops.length, confirm })
  }

  // What is asked for in one turn shares a call, unless it is large: others would wait for its bytes.
  const slot = wire.cluster ? (key: string) => slotOf(prefix + key) : () => 0
  let large = 0
  const operations = new Shared<Operation, unknown>({
    send,
    read: (_operation, reply) => reply,
    groupOf: ({ verb, key, args }) =>
      String(args[3] ?? '').length > LARGE ? `large ${++large}` : `${verb} ${slot(key)}`,
    most: SHARED_MAX,
  })

  async function run(
    what: string,
    verb: Verb,
    key: string,
    args: readonly (string | number)[],
    confirm = false,
  ): Promise<unknown> {
    if (closed) {
      throw new StoreError('these records are closed', {
        outcome: 'none',
        cause: new ClosedError('these records are closed'),
      })
    }
    const reply = await operations.ask({ what, verb, key, args, confirm })
    if (Array.isArray(reply) && Number(reply[0]) === -9) {
      throw new StoreError(
        `"${prefix}${key}" has a value in Redis that Holdfast did not write, and leaves alone: give redisRecords another prefix, or remove it`,
        { outcome: 'none' },
      )
    }
    return reply
  }

  return {
    name: 'redis',
    contract: 1,
    capabilities: redisRecordsCapabilities,

    async begin({ key, claim, fingerprint, holder, ttlMs, retentionMs, takeOver }) {
      const args = [claim, fingerprint, holder, ttlMs, retentionMs, ttlMs + retentionMs, takeOver ? 1 : 0]
      return readBegun(await run('a claim', 'begin', key, args, true))
    },

    async extend({ key, claim }, ttlMs, retentionMs) {
      return Number(await run('a renewal', 'extend', key, [claim, ttlMs, retentionMs])) === 1 ? 'extended' : 'lost'
    },

    async finish({ key, claim }, end, retentionMs) {
      const args = [claim, ENDS[end.is], retentionMs, textOf(end)]
      return Number(await run('a record', 'finish', key, args, true)) === 1 ? 'recorded' : 'lost'
    },

    async withdraw({ key, claim }) {
      await run('a withdrawal', 'withdraw', key, [claim])
    },

    inspect: async (key) => readView(key, await run('a look', 'inspect', key, [])),

    /** Redis forgets by itself. */
    prune: async () => 0,

    async close() {
      closed = true
    },
  }
}

const textOf = (end: End) => ('text' in end ? end.text : '')

/** A new key that runs answers its token; all else is a list. */
function readBegun(reply: unknown): Begun {
  if (!Array.isArray(reply)) return { is: 'run', token: Number(reply), attempt: 1, afterUnknown: false }
  const [kind, ...rest] = reply as unknown[]
  const [a, b, c, d] = rest
  switch (Number(kind)) {
    case 1:
      return { is: 'run', token: Number(a), attempt: Number(b), afterUnknown: Number(c) === 1 }
    case 2:
      return { is: 'done', end: endOf(Number(a), d), token: Number(b), attempt: Number(c) }
    case 3:
      return { is: 'running', holder: String(a), token: Number(b), remainingMs: Number(c) }
    case 4:
      return { is: 'unknown', holder: String(a), token: Number(b), attempt: Number(c), forMs: Number(d) }
    case -2:
      return { is: 'reused', state: REUSED[Number(a)] ?? 'done' }
    default:
      return { is: 'ended' }
  }
}

const REUSED = ['unknown', 'running'] as const

const endOf = (state: number, text: unknown): StoredEnd => ({
  is: state === 3 ? 'threw' : 'returned',
  text: String(text),
})

function readView(key: string, reply: unknown): RecordView | null {
  if (!Array.isArray(reply)) return null
  const [state, fingerprint, holder, token, attempt, remainingMs, text] = reply as unknown[]
  const code = Number(state)
  return {
    key,
    state: STATES[code] ?? 'unknown',
    fingerprint: String(fingerprint),
    holder: String(holder),
    token: Number(token),
    attempt: Number(attempt),
    remainingMs: Number(remainingMs),
    end: code === 2 || code === 3 ? endOf(code, text) : null,
  }
}

function whole(option: string, value: unknown, min: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= min) return
  throw new InvalidArgumentError(option, value, `must be a whole number, ${min} or more`)
}
