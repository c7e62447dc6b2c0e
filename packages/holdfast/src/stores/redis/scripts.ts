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
 * The arguments. Each costs the client and the server as much as a table look-up, so what operations have in common is sent once,
 * what is the same for all of a store stands in the text of its scripts, and what hardly any has comes last, or not at all.
 *
 * acquire: holder, ttl, ttl + retention, waiting; the claims; if any has more: for each '', a floor as a plain number, `=` and the
 *   claim replaced, or JSON (replaces, floor, meta)
 * renew: ttl, ttl + retention; the claims
 * release: the claims
 */
const CLAIMS_AFTER = { acquire: 4, renew: 2, release: 0 } as const

/** For how long a store keeps what it remembers, in ms. */
export interface Kept {
  /** A key that is free. */
  readonly retentionMs: number
  /** A withdrawn claim. */
  readonly endedRetentionMs: number
}

/** What a script begins with. */
const START = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
`

/**
 * A verb on several keys, each with its own claim, in one step. `answer` stays nil when the plain form cannot tell. Answers one
 * thing for one key, a list for several.
 */
const shared = (verb: keyof typeof CLAIMS_AFTER, plain: string, general: string) => `${START}
local out, general = nil, nil
local call, pcall, pack, take, byte, sub = redis.call, redis.pcall, struct.pack, struct.unpack, string.byte, string.sub
for i = 1, #KEYS do
  local key, claim, answer = KEYS[i], ARGV[${CLAIMS_AFTER[verb]} + i], nil
  local v = pcall('GET', key)
${plain}
  if answer == nil then
    general = general or (function()
${GENERAL}
${general}
    end)()
    answer = general(key, v, claim, i)
  end
  if #KEYS == 1 then return answer end
  out = out or {}
  out[i] = answer
end
return out
`

// Numbers that a command is given cost more than text: what is known beforehand comes as an argument. A token that is further ahead of the
// clock than the record lives is no plain case: its record has to live on.

const PLAIN_ACQUIRE = `
  local more = ARGV[${CLAIMS_AFTER.acquire} + #KEYS + i]
  local floor = now
  if more and more ~= '' then floor = tonumber(more) end
  if floor and floor <= now + retention * 1000 then
    local ttl = ARGV[2]
    local token, changes, last = floor, 1, ''
    local free = not v
    if not free and type(v) == 'string' and #v >= 47 and byte(v) == 0xF1 then
      local _, expires, before, count, was, ended = take('${HEAD}', v)
      if expires == 0 and was ~= '' then ended = was end
      if now >= expires and ended ~= claim and before <= now + retention * 1000 then
        free, changes, last = true, count + 1, ended
        if before >= floor then token = before + 1 end
      end
    end
    if free then
      local holder = ARGV[1]
      call('SET', key, pack('${HEAD}ddHc0', 0xF1, now + ttl * 1000, token, changes, #claim, claim,
        #last, last, now, ttl, #holder, holder), 'PX', ARGV[3])
      answer = token
    end
  end
`

const PLAIN_RENEW = `
  if type(v) == 'string' and #v >= 47 and byte(v) == 0xF1 then
    local _, expires, token, _, holds = take('>BdddHc0', v)
    if holds == claim and now < expires and token <= now + retention * 1000 then
      local longer = now + ARGV[1] * 1000
      if longer > expires then
        call('SET', key, sub(v, 1, 1) .. pack('>d', longer) .. sub(v, 10), 'PX', ARGV[2])
      end
      answer = 1
    end
  end
`

// Only the term is struck out: the record keeps the claim, which thereby becomes the last that gave the lease back, and the time
// that it was given when the lease was granted, its rest and the retention.
const PLAIN_RELEASE = `
  if type(v) == 'string' and #v >= 47 and byte(v) == 0xF1 then
    local expires, holds = take('>xdxxxxxxxxxxxxxxxxHc0', v)
    if holds == claim and now < expires then
      call('SETRANGE', key, '1', '\\0\\0\\0\\0\\0\\0\\0\\0')
      answer = 1
    end
  end
`

/** A script by its text. */
export const scriptOf = (text: string): Script => ({ text, sha: createHash('sha1').update(text).digest('hex') })

/** The scripts, with `SPUBLISH` for a Cluster of Redis 7: a message goes to the shard of its key, not to every node. */
export function scriptsFor(publish: 'PUBLISH' | 'SPUBLISH', { retentionMs, endedRetentionMs }: Kept): Scripts {
  const kept = `local retention, keep = ${retentionMs}, ${endedRetentionMs}\n`
  const script = (text: string) => scriptOf(kept + text.replaceAll("'PUBLISH'", `'${publish}'`))
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
    probe: script("return redis.call('PUBLISH', KEYS[1], ARGV[1])"),
  }
}
