// Fences for what the application keeps in Redis: the check of the token and the write are one script, so nothing comes between
// them (G7). What was admitted is remembered without a ttl. A dataset that was lost, with its fences, must not let an old
// holder write first: its birth mark says how old a token may be where no fence is remembered.
import { type AdmitOptions, checkGrant, resourceOf } from '../../fence/fence.js'
import { InvalidArgumentError, StaleTokenError, StoreError } from '../../lease/errors.js'
import { checkKey } from '../../lease/keys.js'
import type { Grant } from '../../store/contract.js'
import { type RedisClient, wireOf } from './client.js'
import { failure } from './failure.js'
import { type Script, scriptOf } from './scripts.js'
import { Server } from './server.js'
import { SLOTS, slotOf, tagOf } from './slot.js'

/** What `redisFence` takes beside the client. */
export interface RedisFenceOptions {
  /** What the fences' own keys begin with: default `holdfast-fence:`. */
  readonly prefix?: string
  /**
   * Whether a token older than the dataset is refused where no fence is remembered. Default true. For lease stores whose tokens
   * do not follow a clock (memory, etcd, NATS, Kubernetes) it must be false; then a fence that was lost lets any token in.
   */
  readonly birthMark?: boolean
}

/** The user's own script, behind the check. */
export interface FencedScript {
  /** Lua. Sees its own KEYS and ARGV. */
  readonly script: string
  readonly keys?: readonly string[]
  readonly args?: readonly (string | number)[]
}

/** A fence in an application's Redis. */
export interface RedisFence {
  /**
   * Gives the dataset its birth mark, unless it has one: to be called once before the first lease is acquired, such as at every
   * start. One command; in a Cluster, one for each of the 16,384 slots, some at a time.
   */
  install(): Promise<void>
  /**
   * Sets a key, if the grant is admitted (G7): throws StaleTokenError when a bigger token, or an equal one of another claim, was
   * admitted before. `ttlMs`: how long the value lasts; default for ever.
   */
  set(
    grant: Grant,
    key: string,
    value: string | number,
    options?: AdmitOptions & { readonly ttlMs?: number },
  ): Promise<void>
  /** Deletes keys, if the grant is admitted. Gives how many there were. Throws StaleTokenError as `set` does. */
  del(grant: Grant, keys: string | readonly string[], options?: AdmitOptions): Promise<number>
  /** Runs the user's own script, if the grant is admitted, in the same atomic step. Gives its answer. Throws StaleTokenError as `set` does. */
  run(grant: Grant, script: FencedScript, options?: AdmitOptions): Promise<unknown>
}

/** Scripts of users whose SHA is remembered. */
const SCRIPTS_MAX = 500
const MARKS_AT_ONCE = 256

const SET = "redis.call('SET', KEYS[1], ARGV[1], unpack(ARGV, 2)) return 1"
// Lua hands on no more than some thousands at once.
const DEL = `local count = 0
for i = 1, #KEYS, 1000 do count = count + redis.call('DEL', unpack(KEYS, i, math.min(i + 999, #KEYS))) end
return count`

/**
 * Keys: the fence, the birth mark, the user's. Arguments: token, claim, whether to ask the mark, the user's.
 * Answers 1 and what the user's script gave; 0 and the token that was admitted, or the birth of the dataset; or -9 and the key of
 * a value that is not Holdfast's.
 */
const behindFence = (text: string) => `
local token = tonumber(ARGV[1])
local function get(key)
  local v = redis.pcall('GET', key)
  if type(v) ~= 'table' then return v end
  if string.find(v.err, 'WRONGTYPE', 1, true) then return 'of another type' end
  error(v.err)
end
local seen = get(KEYS[1])
if seen then
  local admitted, claim = string.match(seen, '^(%d+):(.+)$')
  if not admitted then return { -9, KEYS[1] } end
  if tonumber(admitted) > token or (tonumber(admitted) == token and claim ~= ARGV[2]) then return { 0, admitted } end
elseif ARGV[3] == '1' then
  local born = get(KEYS[2])
  if born and not tonumber(born) then return { -9, KEYS[2] } end
  if not born then
    local time = redis.call('TIME')
    born = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('SET', KEYS[2], born)
  end
  if token < tonumber(born) then return { 0, born } end
end
if seen ~= ARGV[1] .. ':' .. ARGV[2] then redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2]) end
local keys, args = {}, {}
for i = 3, #KEYS do keys[i - 2] = KEYS[i] end
for i = 4, #ARGV do args[i - 3] = ARGV[i] end
return { 1, (function(KEYS, ARGV)
${text}
end)(keys, args) }
`

const INSTALL = scriptOf(
  "local time = redis.call('TIME') redis.call('SET', KEYS[1], string.format('%.0f', time[1] * 1000000 + time[2]), 'NX') return 1",
)

/**
 * A fence for data that the application keeps in Redis, with the application's own client.
 *
 * Throws InvalidArgumentError for what is no client of ioredis or node-redis.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis'
 * const fence = redisFence(new Redis())
 * await fence.install() // at the start, before the first lease
 * await leases.hold('invoice:42', async ({ grant }) => {
 *   await fence.set(grant, '{invoice:42}:paid', 'yes') // throws StaleTokenError when a later holder has written
 * })
 * ```
 */
export function redisFence(client: RedisClient, options: RedisFenceOptions = {}): RedisFence {
  const { prefix = 'holdfast-fence:', birthMark = true } = options
  checkKey('prefix', prefix, 128)
  if (/[{}]/.test(prefix)) throw new InvalidArgumentError('prefix', prefix, 'must have no braces')
  if (typeof birthMark !== 'boolean') throw new InvalidArgumentError('birthMark', birthMark, 'must be true or false')
  const wire = wireOf(client)
  const server = new Server({ wire, replicas: 0, replicasTimeoutMs: 0 })
  const scripts = new Map<string, Script>()

  /** In a Cluster, beside the resource: a tag that has its slot, whatever its name. */
  const tag = (slot: number) => (wire.cluster ? `{${tagOf(slot)}}:` : '')
  const markOf = (slot: number) => `${prefix}${tag(slot)}birth`
  const fenceOf = (resource: string, slot: number) => `${prefix}${tag(slot)}of:${resource}`

  function behind(text: string): Script {
    const known = scripts.get(text)
    if (known !== undefined) return known
    if (scripts.size >= SCRIPTS_MAX) scripts.clear()
    const script = scriptOf(behindFence(text))
    scripts.set(text, script)
    return script
  }

  async function run(grant: Grant, fenced: FencedScript, admit?: AdmitOptions): Promise<unknown> {
    checkGrant(grant)
    const resource = resourceOf(grant, admit)
    const slot = slotOf(resource)
    const { script, keys = [], args = [] } = fenced ?? {}
    if (typeof script !== 'string')
      throw new InvalidArgumentError('script', script, 'must be the text of a script, in Lua')
    checkList('keys', keys)
    for (const key of keys) checkDataKey(key, resource, slot)
    checkList('args', args)
    for (const [place, value] of args.entries()) checkValue(`args[${place}]`, value)
    const { token, claim } = grant
    const given = [String(token), claim, birthMark ? '1' : '0', ...args.map(String)]
    const reply = await server.run(
      'a fenced write',
      () => behind(script),
      [fenceOf(resource, slot), markOf(slot), ...keys],
      given,
      { operations: 2 }, // a script that fails may have written before
    )
    const [admitted, answer] = reply as [unknown, unknown]
    if (answer instanceof Error) throw failure(answer, 'a fenced write', 2)
    if (Number(admitted) === FOREIGN) throw foreign(answer)
    if (Number(admitted) !== 1) throw new StaleTokenError(resource, token, Number(answer))
    return answer ?? null
  }

  function checkDataKey(key: unknown, resource: string, slot: number): void {
    if (typeof key !== 'string' || key === '') throw new InvalidArgumentError('key', key, 'must be a non-empty string')
    if (!wire.cluster || slotOf(key) === slot) return
    throw new InvalidArgumentError(
      'key',
      key,
      `must be in the slot of its resource "${resource}", since a script in a Cluster sees one slot: name it {${resource}}:..., or give both a common part in braces`,
    )
  }

  return {
    async install() {
      const slots = wire.cluster ? Array.from({ length: SLOTS }, (_, slot) => slot) : [0]
      for (let first = 0; first < slots.length; first += MARKS_AT_ONCE) {
        const some = slots.slice(first, first + MARKS_AT_ONCE)
        await Promise.all(some.map((slot) => server.run('a birth mark', () => INSTALL, [markOf(slot)], [])))
      }
    },

    async set(grant, key, value, { ttlMs, ...admit } = {}) {
      checkValue('value', value)
      if (ttlMs !== undefined && !(Number.isSafeInteger(ttlMs) && ttlMs > 0)) {
        throw new InvalidArgumentError('ttlMs', ttlMs, 'must be a whole number of ms, 1 or more')
      }
      const args = ttlMs === undefined ? [value] : [value, 'PX', ttlMs]
      await run(grant, { script: SET, keys: [key], args }, admit)
    },

    async del(grant, keys, admit) {
      const list = typeof keys === 'string' ? [keys] : keys
      checkList('keys', list)
      return Number(await run(grant, { script: DEL, keys: list }, admit))
    },

    run,
  }
}

const FOREIGN = -9

const foreign = (key: unknown) =>
  new StoreError(
    `"${String(key)}" has a value in Redis that Holdfast did not write, and leaves alone: give redisFence another prefix, or remove it`,
    { outcome: 'none', lasting: true },
  )

function checkList(option: string, list: unknown): asserts list is readonly unknown[] {
  if (!Array.isArray(list)) throw new InvalidArgumentError(option, list, 'must be a list')
}

/** What would be stored as its name, such as "undefined", "NaN" or "[object Object]", or as other bytes than it has. */
function checkValue(option: string, value: unknown): void {
  if (typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value))) return
  throw new InvalidArgumentError(option, value, 'must be a string or a finite number')
}
