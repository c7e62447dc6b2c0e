// The protocol of one key, in PL/pgSQL: what `store/protocol.ts` says in TypeScript, line for line, for a server that decides by
// its own clock. Each step locks the key's row first and reads the clock afterwards, so that a lease granted after a wait has its
// whole ttl, and an expired one is never taken for live (G1, G4). Waiters and withdrawn claims are rows of their own, guarded by
// that lock. In these texts L, W, E and M stand for the tables, F for the beginning of the names of the functions.
//
// Instants are in µs of the server's clock, as the tokens are; ttl and poll are in ms. A key is free when `claim` is empty or
// `expires_us` has passed; of a free key `expires_us` says since when. `more`: there may be waiters, withdrawn claims or watchers.

/** The instant, in µs since 1970. */
export const NOW = '(extract(epoch from clock_timestamp()) * 1000000)::bigint'

/** Whether somebody holds the key, at the instant `us`. */
const HELD = `r.claim <> '' and us < r.expires_us`

/**
 * Locks the row of a key, made if need be, against all other steps on it. Null: somebody else has it, and this one does not wait.
 * `taking`: also against transactions that commit only while the lease is held (`whileHeld` of the fence).
 */
const LOCK = `
create or replace function F_lock(k text, waits boolean) returns L language plpgsql as $body$
declare r L;
begin
  for attempt in 1..3 loop
    if waits then
      select * into r from L where key = k for no key update;
    else
      select * into r from L where key = k for no key update skip locked;
    end if;
    if found then return r; end if;
    -- An insert would wait for whoever changes the row that is there.
    if not waits and exists (select from L where key = k) then return null; end if;
    insert into L (key, token) values (k, (select pruned_token from M)) on conflict do nothing;
    if not found and not waits then return null; end if;
  end loop;
  return null;
end $body$;
`

/** Whose turn it is: passes it on when the key is free and somebody waits. */
const PASS_TURN = `
create or replace function F_pass_turn(inout r L, us bigint) language plpgsql as $body$
declare
  head W;
  first W;
  missed boolean := r.reserved_us <> 0 and us >= r.reserved_us;
begin
  if not r.more or (${HELD}) then return; end if;
  select * into head from W where key = r.key order by place limit 1;
  if not found then return; end if;
  delete from W where key = r.key and (fresh_us <= us or (missed and claim = head.claim));
  select * into first from W where key = r.key order by place limit 1;
  if not found then
    r.reserved_us := 0;
  elsif first.claim <> head.claim or r.reserved_us = 0 then
    r.reserved_us := us + first.poll_ms * 1000;
  end if;
end $body$;
`

/** Ends a claim, held or not: it leaves the queue, and the lease if that is its own. */
const END_CLAIM = `
create or replace function F_end_claim(inout r L, c text, us bigint) language plpgsql as $body$
declare head text;
begin
  if r.more then
    select claim into head from W where key = r.key order by place limit 1;
    delete from W where key = r.key and claim = c;
    if found and head = c then r.reserved_us := 0; end if;
  end if;
  if r.claim = c then
    r.claim := '';
    r.expires_us := us;
    r.revoked := false;
    r.last_ended := c;
  end if;
end $body$;
`

/** Ends a claim and remembers it, so that a late acquire of it is refused (G6). */
const FORGET = `
create or replace function F_forget(inout r L, c text, us bigint, keep_ms bigint, by_revocation boolean) language plpgsql as $body$
begin
  delete from E where key = r.key and until_us <= us;
  insert into E (key, claim, until_us, revoked) values (r.key, c, us + greatest(keep_ms, 2 * r.ttl_ms) * 1000, by_revocation)
    on conflict (key, claim) do update set until_us = excluded.until_us, revoked = excluded.revoked;
  r := F_end_claim(r, c, us);
  r.more := true;
end $body$;
`

/** After an end: passes the turn, and tells whose it is. Costs nothing when nobody waits. */
const FREED = `
create or replace function F_freed(inout r L, us bigint) language plpgsql as $body$
declare head text;
begin
  if not r.more or (${HELD}) then return; end if;
  r := F_pass_turn(r, us);
  select claim into head from W where key = r.key order by place limit 1;
  if found then
    perform pg_notify(CHANNEL, '!' || head);
  elsif r.watched then
    r.watched := false;
    perform pg_notify(CHANNEL, '*' || r.key);
  end if;
end $body$;
`

const WRITE = `
create or replace function F_write(r L) returns void language plpgsql as $body$
begin
  r.more := r.more and (r.watched or exists (select from W where key = r.key) or exists (select from E where key = r.key));
  update L set token = r.token, claim = r.claim, holder = r.holder, ttl_ms = r.ttl_ms, granted_us = r.granted_us,
    expires_us = r.expires_us, changes = r.changes, revoked = r.revoked, last_ended = r.last_ended, meta = r.meta,
    reserved_us = r.reserved_us, watched = r.watched, more = r.more
  where key = r.key;
end $body$;
`

const REFUSAL = `
create or replace function F_refusal(r L, because int, us bigint, replaced int) returns jsonb language plpgsql as $body$
declare head text;
begin
  if ${HELD} then
    return jsonb_build_array(because, r.holder, r.token, (r.expires_us - us + 999) / 1000, replaced);
  end if;
  if r.more then
    select holder into head from W where key = r.key order by place limit 1;
    if found then
      return jsonb_build_array(because, head, r.token, greatest(0, (r.reserved_us - us + 999) / 1000), replaced);
    end if;
  end if;
  return jsonb_build_array(because, '', r.token, 0, replaced);
end $body$;
`

const GAVE_BACK = `
create or replace function F_gave_back(r L, c text) returns boolean language sql as $body$
  select r.last_ended = c and not exists (select from E where key = r.key and claim = c and revoked)
$body$;
`

const WHY_LOST = `
create or replace function F_why_lost(r L, c text) returns int language plpgsql as $body$
declare by_revocation boolean;
begin
  if r.claim = c then return case when r.revoked then -2 else 0 end; end if;
  if r.more then
    select revoked into by_revocation from E where key = r.key and claim = c;
    if found then return case when by_revocation then -2 else -3 end; end if;
  end if;
  if r.last_ended = c then return -3; end if;
  return case when r.claim = '' then 0 else -1 end;
end $body$;
`

/** One acquire in general. Gives its answer, or null: the row is locked, and this one does not wait. */
const ACQUIRE_ONE = `
create or replace function F_acquire_one(k text, c text, h text, ttl bigint, poll bigint, other jsonb, waits boolean)
returns jsonb language plpgsql as $body$
declare
  r L;
  us bigint;
  head W;
  replaces text := other->>'replaces';
  floor bigint := coalesce((other->>'floor')::bigint, 0);
  replaced int := -1;
  reserved_before bigint;
  next_token bigint;
  answer jsonb;
begin
  r := F_lock(k, waits);
  if r.key is null then return null; end if;
  us := ${NOW};
  if not (${HELD}) or r.claim = replaces then
    -- A change of hands waits for the transactions that commit only while the last holder has it.
    if waits then
      perform from L where key = k for update;
    else
      perform from L where key = k for update skip locked;
      if not found then return null; end if;
    end if;
    us := ${NOW};
  end if;

  if r.last_ended = c or (r.more and exists (select from E where key = k and claim = c)) then
    return F_refusal(r, -3, us, -1);
  end if;
  reserved_before := r.reserved_us;
  if replaces is not null then
    replaced := ((r.claim = replaces and us < r.expires_us) or F_gave_back(r, replaces))::int;
    r := F_end_claim(r, replaces, us);
  end if;
  r := F_pass_turn(r, us);

  if (${HELD}) and r.claim = c then
    if r.revoked then
      answer := F_refusal(r, -4, us, replaced);
      if replaced <> -1 then perform F_write(r); end if;
      return answer;
    end if;
    r.token := greatest(r.token, floor);
    r.expires_us := greatest(r.expires_us, us + ttl * 1000);
    perform F_write(r);
    return jsonb_build_array(1, r.token, replaced);
  end if;

  if r.more then select * into head from W where key = k order by place limit 1; end if;
  if (${HELD}) or (head.claim is not null and head.claim <> c) then
    answer := F_refusal(r, case when ${HELD} then -1 else -2 end, us, replaced);
    if poll > 0 then
      update W set poll_ms = poll, fresh_us = us + 2000 * poll where key = k and claim = c;
      if not found then
        delete from W where key = k and fresh_us <= us;
        insert into W (key, place, claim, holder, since_us, poll_ms, fresh_us)
          values (k, (select coalesce(max(place), 0) + 1 from W where key = k), c, h, us, poll, us + 2000 * poll);
        if not r.more then
          r.more := true;
          perform F_write(r);
          return answer;
        end if;
      end if;
    end if;
    if r.reserved_us <> reserved_before and head.claim is not null then perform pg_notify(CHANNEL, '!' || head.claim); end if;
    if r.reserved_us <> reserved_before or replaced <> -1 then perform F_write(r); end if;
    return answer;
  end if;

  next_token := greatest(r.token + 1, case when floor > 0 then floor else us end);
  if next_token > 9007199254740991 then return jsonb_build_array(-8); end if;
  if head.claim is not null then delete from W where key = k and claim = c; end if;
  if r.more then delete from E where key = k and until_us <= us; end if;
  r.token := next_token;
  r.claim := c;
  r.holder := h;
  r.ttl_ms := ttl;
  r.granted_us := us;
  r.expires_us := us + ttl * 1000;
  r.revoked := false;
  r.changes := r.changes + 1;
  r.meta := other->>'meta';
  r.reserved_us := 0;
  perform F_write(r);
  return jsonb_build_array(1, r.token, replaced);
end $body$;
`

const RENEW_ONE = `
create or replace function F_renew_one(k text, c text, ttl bigint, waits boolean) returns int language plpgsql as $body$
declare
  r L;
  us bigint;
begin
  if waits then
    select * into r from L where key = k for no key update;
    if not found then return 0; end if;
  else
    select * into r from L where key = k for no key update skip locked;
    if not found then return case when exists (select from L where key = k) then -7 else 0 end; end if;
  end if;
  us := ${NOW};
  if r.claim <> c or not (${HELD}) or r.revoked then return F_why_lost(r, c); end if;
  update L set expires_us = greatest(expires_us, us + ttl * 1000) where key = k;
  return 1;
end $body$;
`

const RELEASE_ONE = `
create or replace function F_release_one(k text, c text, waits boolean) returns int language plpgsql as $body$
declare
  r L;
  us bigint;
begin
  if waits then
    select * into r from L where key = k for no key update;
    if not found then return 0; end if;
  else
    select * into r from L where key = k for no key update skip locked;
    if not found then return case when exists (select from L where key = k) then -7 else 0 end; end if;
  end if;
  us := ${NOW};
  if r.claim <> c or not (${HELD}) then
    return case when F_gave_back(r, c) then 1 else F_why_lost(r, c) end;
  end if;
  r := F_end_claim(r, c, us);
  r := F_freed(r, us);
  perform F_write(r);
  return 1;
end $body$;
`

export const PARTS: readonly string[] = [
  LOCK,
  PASS_TURN,
  END_CLAIM,
  FORGET,
  FREED,
  WRITE,
  REFUSAL,
  GAVE_BACK,
  WHY_LOST,
  ACQUIRE_ONE,
  RENEW_ONE,
  RELEASE_ONE,
]
