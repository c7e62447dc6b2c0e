// The protocol of one key, in Lua: what `store/protocol.ts` says in TypeScript, line for line, for a server that decides by its
// own clock. The scripts answer the plain cases themselves and build this only when there is more to remember than a holder:
// a queue, withdrawn claims, a revocation, meta, a watcher.
//
// The record, one string a key (docs/adr/0014-redis-record-is-one-string.md):
//   byte 1     F1: plain; F2: with a tail
//   8 × 3      expires (0: nobody holds), token, changes, as doubles, most significant byte first
//   2 + n, twice   claim (where nobody holds: the one that gave the lease back last); before that, the last that gave it back
//   8 × 2      granted, ttl
//   2 + n      holder
//   tail       MessagePack: { revoked, meta, reserved, watched, ended, queue }
// Instants are in µs of the server's clock, so that they and the tokens are exact in a double; ttl and poll are in ms.

/** Reads the head of a record: kind, expires, token, changes, claim, last, and where the rest begins. */
export const HEAD = '>BdddHc0Hc0'

/** What is bound in the scripts before this: `now` in µs, `retention` and `keep` (of ended claims) in ms. */
export const GENERAL = `
local function read(key, v)
  if v == nil then v = redis.pcall('GET', key) end
  if not v then
    return { key = key, token = 0, changes = 0, claim = '', last = '', expires = 0, granted = 0, ttl = 0, holder = '',
      revoked = 0, meta = '', reserved = 0, watched = 0, ended = {}, queue = {} }
  end
  if type(v) == 'table' then
    if string.find(v.err, 'WRONGTYPE', 1, true) then return nil, redis.call('TYPE', key).ok end
    error(v.err)
  end
  local kind = string.byte(v)
  if (kind ~= 0xF1 and kind ~= 0xF2) or #v < 47 then return nil, 'string' end
  local s = { key = key }
  local at
  kind, s.expires, s.token, s.changes, s.claim, s.last, s.granted, s.ttl, s.holder, at =
    struct.unpack('>BdddHc0Hc0ddHc0', v)
  if s.expires == 0 and s.claim ~= '' then s.claim, s.last = '', s.claim end
  if kind == 0xF1 then
    s.revoked, s.meta, s.reserved, s.watched, s.ended, s.queue = 0, '', 0, 0, {}, {}
  else
    local tail = cmsgpack.unpack(string.sub(v, at))
    s.revoked, s.meta, s.reserved, s.watched, s.ended, s.queue = unpack(tail)
  end
  return s
end

-- The record outlives all that it remembers: a ttl and the retention, as long as the plain scripts keep it; withdrawn claims and
-- waiters until they are due; a token until the clock has passed it, or the next one would be smaller (G2).
local function write(s)
  local tail, untilUs = '', math.max(s.expires, now + s.ttl * 1000, s.token) + retention * 1000
  if s.changes == 0 then untilUs = now + 60000000 end
  local kind = 0xF1
  if s.revoked ~= 0 or s.meta ~= '' or s.reserved ~= 0 or s.watched ~= 0 or #s.ended > 0 or #s.queue > 0 then
    kind = 0xF2
    tail = cmsgpack.pack({ s.revoked, s.meta, s.reserved, s.watched, s.ended, s.queue })
    for _, entry in ipairs(s.ended) do if entry[2] > untilUs then untilUs = entry[2] end end
    for _, waiter in ipairs(s.queue) do if waiter[5] > untilUs then untilUs = waiter[5] end end
  end
  redis.call('SET', s.key, struct.pack('>BdddHc0Hc0ddHc0', kind, s.expires, s.token, s.changes, #s.claim, s.claim,
    #s.last, s.last, s.granted, s.ttl, #s.holder, s.holder) .. tail, 'PX', math.ceil((untilUs - now) / 1000))
end

-- A number as it is answered: ioredis 6 reads integers near 2^53 wrong by one, so those go as text.
local function exact(number)
  return number > 9007199254740900 and string.format('%.0f', number) or number
end

local function isHeld(s) return s.claim ~= '' and now < s.expires end

local function endedEntry(s, claim)
  for _, entry in ipairs(s.ended) do if entry[1] == claim then return entry end end
end

-- Whether the claim was the last to end what it held: asked once more, it is answered as the first time.
local function gaveBack(s, claim)
  local entry = endedEntry(s, claim)
  return s.last == claim and not (entry and entry[3] ~= 0)
end

local function hasEnded(s, claim) return s.last == claim or endedEntry(s, claim) ~= nil end

local function leaveQueue(s, claim)
  for place, waiter in ipairs(s.queue) do
    if waiter[1] == claim then
      table.remove(s.queue, place)
      if place == 1 then s.reserved = 0 end
      return
    end
  end
end

local function endClaim(s, claim)
  leaveQueue(s, claim)
  if s.claim == claim then s.claim, s.expires, s.revoked, s.last = '', 0, 0, claim end
end

local function sweep(s)
  local left = {}
  for _, entry in ipairs(s.ended) do if entry[2] > now then left[#left + 1] = entry end end
  s.ended = left
end

local function forget(s, claim, revoked)
  local ms = keep
  if 2 * s.ttl > ms then ms = 2 * s.ttl end
  sweep(s)
  for place, entry in ipairs(s.ended) do
    if entry[1] == claim then table.remove(s.ended, place) break end
  end
  s.ended[#s.ended + 1] = { claim, now + ms * 1000, revoked }
  endClaim(s, claim)
end

-- Whoever was told its turn with the token holds since then: its first request puts that on record.
local function takeTurn(s, claim)
  local head = s.queue[1]
  if not head or (head[8] or 0) == 0 or head[1] ~= claim or now >= s.reserved then return end
  table.remove(s.queue, 1)
  s.claim, s.holder, s.ttl, s.granted, s.expires = claim, head[2], head[7], now, s.reserved
  s.revoked, s.changes, s.meta, s.reserved = 0, s.changes + 1, '', 0
  sweep(s)
end

local function passTurn(s, asker)
  if #s.queue == 0 or isHeld(s) then return end
  local missed = s.reserved ~= 0 and now >= s.reserved
  local before, left = s.queue[1], {}
  for place, waiter in ipairs(s.queue) do
    if waiter[5] > now and not (missed and place == 1) then left[#left + 1] = waiter end
  end
  s.queue = left
  local head = left[1]
  if not head then s.reserved = 0
  elseif head ~= before or s.reserved == 0 then
    s.reserved = now + head[4] * 1000
    local token = math.max(s.token + 1, now)
    if (head[7] or 0) > 0 and head[1] ~= asker and token <= 9007199254740991 then
      s.token, head[8] = token, token
      if s.reserved > head[5] then s.reserved = head[5] end
    end
  end
end

-- Tells a waiter that its turn has come, and the token if that goes with it, on the channel of its process or else of the key.
local function tell(s, waiter)
  local channel = waiter[6]
  if not channel or channel == '' then channel = s.key end
  redis.call('PUBLISH', channel, '!' .. string.format('%.0f', waiter[8] or 0) .. ' ' .. waiter[1])
end

-- Tells who waits; costs nothing when nobody does.
local function wake(s)
  local head = s.queue[1]
  if head then tell(s, head)
  elseif s.watched ~= 0 then
    s.watched = 0
    redis.call('PUBLISH', s.key, '*')
  end
end

local function freed(s)
  if isHeld(s) then return end
  passTurn(s)
  wake(s)
end

local function left(s)
  return math.ceil((s.expires - now) / 1000)
end

local function refusal(s, because)
  local held, head = isHeld(s), s.queue[1]
  if not held and head then
    local reserved = math.ceil((s.reserved - now) / 1000)
    if reserved < 0 then reserved = 0 end
    return { because, head[2], exact(s.token), reserved, -1 }
  end
  return { because, held and s.holder or '', exact(s.token), held and left(s) or 0, -1 }
end

-- Why a claim does not hold: 0 expired, -1 taken, -2 revoked, -3 released.
local function whyLost(s, claim)
  if s.claim == claim then return s.revoked ~= 0 and -2 or 0 end
  local entry = endedEntry(s, claim)
  if entry then return entry[3] ~= 0 and -2 or -3 end
  if s.last == claim then return -3 end
  return s.claim == '' and 0 or -1
end

local function record(s)
  if s.queue[1] then takeTurn(s, s.queue[1][1]) end
  if s.changes == 0 and #s.queue == 0 then return false end
  local held = isHeld(s)
  local fields = { held and 1 or 0, s.holder, s.claim, exact(s.token), s.ttl, held and left(s) or 0,
    held and math.floor((now - s.granted) / 1000) or 0, s.changes, held and s.revoked or 0, s.meta }
  for _, waiter in ipairs(s.queue) do
    if waiter[5] > now then
      fields[#fields + 1] = waiter[2]
      fields[#fields + 1] = math.max(0, math.floor((now - waiter[3]) / 1000))
    end
  end
  return fields
end
`

/** `acquire` in general. Gives the answer of the operation on key `i`. */
export const ACQUIRE = `
return function(key, v, claim, i)
  local s, foreign = read(key, v)
  if not s then return { -9, foreign } end
  local holder, ttl = ARGV[1], tonumber(ARGV[2])
  local poll, told, inbox = string.match(ARGV[4], '^(%d+) ?(%d?) ?(.*)$')
  poll = tonumber(poll)
  local given = ARGV[4 + #KEYS + i] or ''
  local floor = tonumber(given)
  local more = (given == '' and {}) or (floor and { floor = floor })
    or (string.byte(given) == 61 and { replaces = string.sub(given, 2) }) or cjson.decode(given)
  if hasEnded(s, claim) then return refusal(s, -3) end
  local replaced, reservedBefore = -1, s.reserved
  if more.replaces then
    takeTurn(s, more.replaces)
    replaced = ((s.claim == more.replaces and isHeld(s)) or gaveBack(s, more.replaces)) and 1 or 0
    endClaim(s, more.replaces)
  end
  passTurn(s, claim)
  takeTurn(s, claim)

  local held, head = isHeld(s), s.queue[1]
  if held and s.claim == claim then
    if s.revoked ~= 0 then
      local answer = refusal(s, -4)
      answer[5] = replaced
      return answer
    end
    if more.floor and more.floor > s.token then s.token = more.floor end
    s.expires = math.max(s.expires, now + ttl * 1000)
    write(s)
    return { 1, exact(s.token), replaced }
  end
  if held or (head and head[1] ~= claim) then
    local answer = refusal(s, held and -1 or -2)
    answer[5] = replaced
    local turn = s.reserved ~= reservedBefore and head
    if poll > 0 then
      local fresh, mine = now + 2000 * poll, nil
      for _, waiter in ipairs(s.queue) do if waiter[1] == claim then mine = waiter end end
      local toldTtl = told == '1' and not more.meta and not more.floor and ttl or 0
      if mine then mine[4], mine[5], mine[6], mine[7] = poll, fresh, inbox, toldTtl
      else
        local waiting = {}
        for _, waiter in ipairs(s.queue) do if waiter[5] > now then waiting[#waiting + 1] = waiter end end
        waiting[#waiting + 1] = { claim, holder, now, poll, fresh, inbox, toldTtl, 0 }
        s.queue = waiting
      end
    end
    if turn then tell(s, turn) end
    if poll > 0 or replaced ~= -1 or turn then write(s) end
    return answer
  end

  local token = math.max(s.token + 1, more.floor and more.floor > 0 and more.floor or now)
  if token > 9007199254740991 then return { -8, '' } end
  if head then table.remove(s.queue, 1) end
  sweep(s)
  s.token, s.claim, s.holder, s.ttl, s.granted, s.expires = token, claim, holder, ttl, now, now + ttl * 1000
  s.revoked, s.changes, s.meta, s.reserved = 0, s.changes + 1, more.meta or '', 0
  write(s)
  return { 1, exact(token), replaced }
end
`

/** `renew` in general. */
export const RENEW = `
return function(key, v, claim)
  local s, foreign = read(key, v)
  if not s then return -9 end
  local ttl = tonumber(ARGV[1])
  takeTurn(s, claim)
  if s.claim ~= claim or not isHeld(s) or s.revoked ~= 0 then return whyLost(s, claim) end
  s.expires = math.max(s.expires, now + ttl * 1000)
  write(s)
  return 1
end
`

/** `release` in general. */
export const RELEASE = `
return function(key, v, claim)
  local s, foreign = read(key, v)
  if not s then return { -9, foreign } end
  takeTurn(s, claim)
  if s.claim ~= claim or not isHeld(s) then return gaveBack(s, claim) and 1 or whyLost(s, claim) end
  endClaim(s, claim)
  freed(s)
  write(s)
  return 1
end
`

/** The verbs that are rare enough to have no plain form. */
export const WITHDRAW = `
local s, foreign = read(KEYS[1])
if not s then return { -9, foreign } end
forget(s, ARGV[1], 0)
freed(s)
write(s)
return 1
`

export const REVOKE = `
local s, foreign = read(KEYS[1])
if not s then return { -9, foreign } end
local before = record(s)
if not isHeld(s) then return 0 end
if ARGV[1] == '1' then
  forget(s, s.claim, 1)
  freed(s)
else
  s.revoked = 1
end
write(s)
return before
`

/** Of several keys: null for what is foreign, was never granted, or is gone. */
export const INSPECT = `
local out = {}
for i = 1, #KEYS do
  local s, foreign = read(KEYS[i])
  out[i] = s and record(s) or (foreign and { -9, foreign }) or false
end
return out
`

/** Whether the watcher of this claim should ask now. A watcher that is not in the queue leaves word that it wants to be told. */
export const LOOK = `
local s, foreign = read(KEYS[1])
if not s then return 1 end
local claim, head, queued = ARGV[1], nil, false
for _, waiter in ipairs(s.queue) do
  if waiter[1] == claim then queued = true end
  if not head and waiter[5] > now then head = waiter end
end
if not queued and s.watched == 0 then
  s.watched = 1
  write(s)
end
if isHeld(s) then return 0 end
return (not head or head[1] == claim or now >= s.reserved) and 1 or 0
`

/** Forgets keys of which nothing is left to remember but the token, and that were not used for so long. */
export const PRUNE = `
local count = 0
for i = 1, #KEYS do
  local s = read(KEYS[i])
  if s and s.changes > 0 and not isHeld(s) then
    local older = tonumber(ARGV[1])
    local forgettable = older == 0 or s.ttl + retention - redis.call('PTTL', KEYS[i]) >= older
    if s.token > now then forgettable = false end
    for _, entry in ipairs(s.ended) do if entry[2] > now then forgettable = false end end
    for _, waiter in ipairs(s.queue) do if waiter[5] > now then forgettable = false end end
    if forgettable then count = count + redis.call('DEL', KEYS[i]) end
  end
end
return count
`
