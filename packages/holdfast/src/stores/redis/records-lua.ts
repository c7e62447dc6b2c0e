// The scripts of records: one string a key, one script a verb, each one atomic step by the server's clock. They say what
// idempotency/protocol.ts says. `key` is the key, and its arguments follow `a`.
import { type Script, scriptOf } from './scripts.js'

/** So many ms a claim that ended is remembered beyond its term (ENDED_RETENTION_MS of the protocol), in µs. */
const ENDED_US = '60000000'

/**
 * The record: a mark, state (0 free, 1 running, 2 returned, 3 threw), end of the term and of the record (µs), token, attempts,
 * whether a run before ended unknown, claim, fingerprint, holder; then the text of the result.
 */
const FORM = '>BBdddI4BHc0Hc0Hc0'

/** The value. */
const LOOK = `local v = redis.pcall('GET', key)
`

/** The record as locals, all nil when there is none any more. `write` stores it, until `keep`. */
const RECORD = `local state, term, keep, token, attempt, after, claim, fingerprint, holder, at, _
if v then
  if type(v) ~= 'string' or string.byte(v) ~= 0xF2 then return { -9 } end
  _, state, term, keep, token, attempt, after, claim, fingerprint, holder, at = struct.unpack('${FORM}', v)
  if now >= keep then state = nil end
end
local function write(state, term, keep, token, attempt, after, claim, fingerprint, holder, text)
  redis.call('SET', key, struct.pack('${FORM}', 0xF2, state, term, keep, token, attempt, after, #claim, claim,
    #fingerprint, fingerprint, #holder, holder) .. text, 'PX', string.format('%.0f', math.ceil((keep - now) / 1000)))
end
local function number(n) return string.format('%.0f', n) end
local function free() write(0, 0, math.max(term, now) + ${ENDED_US}, token, attempt, 0, claim, '', '', '') end
`

const START = LOOK + RECORD

/**
 * Arguments: claim, fingerprint, holder, ttl, retention, their sum, whether to take over. Times in ms. A run of a new key answers its
 * token: the plain case, which needs none of the rest.
 */
const BEGIN = `${LOOK}
if not v then
  redis.call('SET', key, struct.pack('${FORM}', 0xF2, 1, now + ARGV[4] * 1000, now + ARGV[6] * 1000, now, 1, 0,
    #ARGV[1], ARGV[1], #ARGV[2], ARGV[2], #ARGV[3], ARGV[3]), 'PX', ARGV[6])
  return now
end
${RECORD}
local ttl, retention = ARGV[4] * 1000, ARGV[5] * 1000
local function run(token, attempt, after)
  write(1, now + ttl, now + ttl + retention, token, attempt, after, ARGV[1], ARGV[2], ARGV[3], '')
  if attempt == 1 and after == 0 then return number(token) end
  return { 1, number(token), attempt, after }
end
if state == nil then return run(math.max(now, (token or 0) + 1), 1, 0) end
local nextToken = math.max(now, token + 1)
if state == 0 then
  if claim == ARGV[1] then return { -1 } end
  return run(nextToken, attempt + 1, 0)
end
local over = state == 1 and now >= term
if fingerprint ~= ARGV[2] then return { -2, over and 0 or state } end
if state >= 2 then return { 2, state, number(token), attempt, string.sub(v, at) } end
if over then
  if ARGV[7] == '1' then return run(nextToken, attempt + 1, 1) end
  return { 4, holder, number(token), attempt, number((now - term) / 1000) }
end
if claim ~= ARGV[1] then return { 3, holder, number(token), number(math.ceil((term - now) / 1000)) } end
term = math.max(term, now + ttl)
write(1, term, term + retention, token, attempt, after, claim, fingerprint, holder, '')
return { 1, number(token), attempt, after }
`

/** Arguments: claim, ttl, retention. */
const EXTEND = `${START}
if state ~= 1 or claim ~= ARGV[1] or now >= term then return 0 end
term = math.max(term, now + ARGV[2] * 1000)
write(1, term, term + ARGV[3] * 1000, token, attempt, after, claim, fingerprint, holder, '')
return 1
`

/** Arguments: claim, end (0 forgotten, 1 unknown, 2 returned, 3 threw), retention, text. The plain case: a run is done. */
const FINISH = `${LOOK}
local kind = tonumber(ARGV[2])
if kind >= 2 and type(v) == 'string' and string.byte(v) == 0xF2 then
  local _, state, term, keep, token, attempt, after, claim, _, _, at = struct.unpack('${FORM}', v)
  if state == 1 and claim == ARGV[1] and now < keep then
    redis.call('SET', key, struct.pack('>BBdd', 0xF2, kind, 0, now + ARGV[3] * 1000) .. string.sub(v, 19, at - 1) .. ARGV[4],
      'PX', ARGV[3])
    return 1
  end
end
${RECORD}
local ending, keep = kind, now + ARGV[3] * 1000
if state == nil or claim ~= ARGV[1] then return 0 end
if state ~= 1 then return state == ending and 1 or 0 end
if ending >= 2 then
  write(ending, 0, keep, token, attempt, after, claim, fingerprint, holder, ARGV[4])
elseif ending == 1 or after == 1 then
  write(1, math.min(term, now), keep, token, attempt, after, claim, fingerprint, holder, '')
else
  free()
end
return 1
`

/** Arguments: claim. */
const WITHDRAW = `${START}
if state == nil then
  term, token, attempt, claim = 0, token or 0, 0, ARGV[1]
  free()
elseif state == 1 and claim == ARGV[1] then
  if after == 1 then
    write(1, math.min(term, now), keep, token, attempt, after, claim, fingerprint, holder, '')
  else
    free()
  end
end
return 1
`

/** → state (4 unknown), fingerprint, holder, token, attempts, ms left, text; nothing when there is nothing to tell. */
const INSPECT = `${START}
if state == nil or attempt == 0 then return false end
local over = state == 1 and now >= term
local left = math.ceil(((state == 1 and not over and term or keep) - now) / 1000)
return { over and 4 or state, fingerprint, holder, number(token), attempt, number(left), string.sub(v, at) }
`

/** How many arguments a verb has for each key. */
export const RECORD_ARGUMENTS = { begin: 7, extend: 3, finish: 4, withdraw: 1, inspect: 0 } as const
type Verb = keyof typeof RECORD_ARGUMENTS

/** A verb on several keys, one after the other, each with its own arguments. Answers one thing for one key, a list for several. */
const shared = (verb: Verb, body: string): Script =>
  scriptOf(`local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function one(key, a)
${body.replaceAll(/ARGV\[(\d)\]/g, 'ARGV[a + $1]')}
end
if #KEYS == 1 then return one(KEYS[1], 0) end
local out = {}
for i = 1, #KEYS do out[i] = one(KEYS[i], (i - 1) * ${RECORD_ARGUMENTS[verb]}) end
return out
`)

/** One script for each verb. */
export const recordScripts: Readonly<Record<Verb, Script>> = {
  begin: shared('begin', BEGIN),
  extend: shared('extend', EXTEND),
  finish: shared('finish', FINISH),
  withdraw: shared('withdraw', WITHDRAW),
  inspect: shared('inspect', INSPECT),
}
