// The scripts: one for each verb, each one atomic step on the server (G1), by the server's clock. The plain cases, which are
// nearly all, are three commands and no table; what is beyond them is handed to the protocol of lua.ts, built only then.
import { createHash } from 'node:crypto'
import { ACQUIRE, GENERAL, HEAD, INSPECT, LOOK, PRUNE, RELEASE, RENEW, REVOKE, WITHDRAW } from './lua.js'

/** A script and the name under which the server keeps it. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** All scripts of a store. */
export interface Scripts {
  readonly acquire: Script
  readonly renew: Script
  readonly release: Script
  readonly withdraw: Script
  readonly revoke: Script
  readonly inspect: Script
  readonly look: Script
  readonly prune: Script
  readonly probe: Script
}

/**
 * How many arguments come before those of the operations, and how many each operation has of its own. What operations have in
 * common is sent once, since each argument costs both sides as much as a table look-up: first the retention, and how long withdrawn
 * claims are kept, in ms.
 *
 * acquire: holder, ttl, ttl + retention, poll (0: none); each: claim, more ('' or JSON: replaces, floor, meta)
 * renew: ttl, ttl + retention; each: claim
 * release: each: claim
 */
const ARGUMENTS = {
  acquire: { common: 6, own: 2 },
  renew: { common: 4, own: 1 },
  release: { common: 2, own: 1 },
} as const

/** What a script begins with. */
const START = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local retention, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
`

/**
 * A verb on several keys, each with its own arguments, in one step. For key i they follow `a`; `answer` stays nil when the
 * plain form cannot tell. Answers one thing for one key, a list for several.
 */
const shared = (verb: keyof typeof ARGUMENTS, plain: string, general: string) => `${START}
local out, general = {}, nil
local call, pcall, pack, take, byte, sub = redis.call, redis.pcall, struct.pack, struct.unpack, string.byte, string.sub
for i = 1, #KEYS do
  local key, a, answer = KEYS[i], ${ARGUMENTS[verb].common} + (i - 1) * ${ARGUMENTS[verb].own}, nil
  local v = pcall('GET', key)
${plain}
  if answer == nil then
    general = general or (function()
${GENERAL}
${general}
    end)()
    answer = general(key, v, a)
  end
  out[i] = answer
end
if #KEYS == 1 then return out[1] end
return out
`

// Numbers that a command is given cost more than text: what is known beforehand comes as an argument.

const PLAIN_ACQUIRE = `
  if ARGV[a + 2] == '' then
    local claim, ttl = ARGV[a + 1], ARGV[4]
    local token, changes, last = now, 1, ''
    local free = not v
    if not free and type(v) == 'string' and #v >= 47 and byte(v) == 0xF1 then
      local _, expires, before, count, _, ended = take('${HEAD}', v)
      if now >= expires and ended ~= claim and before < 9007199254740900 then
        free, changes, last = true, count + 1, ended
        if before >= now then token = before + 1 end
      end
    end
    if free then
      local holder = ARGV[3]
      call('SET', key, pack('${HEAD}ddHc0', 0xF1, now + ttl * 1000, token, changes, #claim, claim,
        #last, last, now, ttl, #holder, holder), 'PX', ARGV[5])
      answer = token
    end
  end
`

const PLAIN_RENEW = `
  if type(v) == 'string' and #v >= 47 and byte(v) == 0xF1 then
    local _, expires, _, _, claim = take('>BdddHc0', v)
    if claim == ARGV[a + 1] and now < expires then
      local longer = now + ARGV[3] * 1000
      if longer > expires then
        call('SET', key, sub(v, 1, 1) .. pack('>d', longer) .. sub(v, 10), 'PX', ARGV[4])
      end
      answer = 1
    end
  end
`

// The record keeps the time that it was given when the lease was granted: its rest, and the retention.
const PLAIN_RELEASE = `
  if type(v) == 'string' and #v >= 47 and byte(v) == 0xF1 then
    local kind, expires, token, changes, claim, _, at = take('${HEAD}', v)
    if claim == ARGV[a + 1] and now < expires then
      call('SET', key, pack('${HEAD}', kind, 0, token, changes, 0, '', #claim, claim) .. sub(v, at), 'KEEPTTL')
      answer = 1
    end
  end
`

/** A script by its text. */
export const scriptOf = (text: string): Script => ({ text, sha: createHash('sha1').update(text).digest('hex') })

/** The scripts, with `SPUBLISH` for a Cluster of Redis 7: a message goes to the shard of its key, not to every node. */
export function scriptsFor(publish: 'PUBLISH' | 'SPUBLISH'): Scripts {
  const script = (text: string) => scriptOf(text.replaceAll("'PUBLISH'", `'${publish}'`))
  const whole = (body: string) => script(`${START}${GENERAL}${body}`)
  return {
    acquire: script(shared('acquire', PLAIN_ACQUIRE, ACQUIRE)),
    renew: script(shared('renew', PLAIN_RENEW, RENEW)),
    release: script(shared('release', PLAIN_RELEASE, RELEASE)),
    withdraw: whole(WITHDRAW),
    revoke: whole(REVOKE),
    inspect: whole(INSPECT),
    look: whole(LOOK),
    prune: whole(PRUNE),
    probe: script("return redis.call('PUBLISH', KEYS[1], ARGV[3])"),
  }
}
