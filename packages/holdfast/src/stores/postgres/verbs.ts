// The verbs, one function each, as the store calls them: one statement for as many keys as were asked for together. Their plain
// cases, which are nearly all, are decided by one statement over all keys (one key: by two short ones); what is beyond them is
// handed to the protocol, key by key. No function waits for a row while it has another: rows that somebody else has locked are
// skipped and told (`-7`), to be asked for again alone; a key that is asked for alone is waited for, up to `wait`.
//
// Operations come as JSON, each field one array: k keys, c claims, h holders, t ttls, p polls, o others (replaces, floor, meta).
// Answers: `plain`, a JSON array with a number for each plain case and null for the others; `rest`, a JSON object of those by
// their place. Both null: the transaction is not READ COMMITTED, and nothing was done.
import { NOW } from './plpgsql.js'

/** Plans must not depend on how small a table was when they were made. */
const PLANS =
  'set enable_seqscan = off set enable_indexonlyscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off'

const NOT_READ_COMMITTED = `if current_setting('transaction_isolation') <> 'read committed' then return; end if;`

/**
 * The row of L by its key: one look into the index for each that is asked for. As an equation it could also be the whole index, read
 * once for each statement, and would be for as long as the plan is from a time when the table was small.
 */
const keyIs = (key: string) => `l.key = any(array[${key}])`

/** A token must leave room for the next, below 2^53. */
const TOKEN_MAX = '9007199254740990'

const ACQUIRE = `
create or replace function F_acquire_plain(j jsonb, out places int[], out tokens bigint[]) language plpgsql ${PLANS} as $body$
begin
  with granted as (
    update L l set token = greatest(a.token + 1, a.us), claim = a.c, holder = a.h, ttl_ms = a.ttl, granted_us = a.us,
      expires_us = a.us + a.ttl * 1000, revoked = false, changes = l.changes + 1, meta = null
    from (
      select *, ${NOW} as us from (
        select l.token, l.claim, l.expires_us, l.last_ended, l.more, asked.* from (
          select i, k, c, h, t::bigint as ttl from rows from (
            jsonb_array_elements_text(j->'k'), jsonb_array_elements_text(j->'c'), jsonb_array_elements_text(j->'h'),
            jsonb_array_elements_text(j->'t')) with ordinality as asked (k, c, h, t, i)
          where j->'o'->(i::int - 1) is null or j->'o'->(i::int - 1) = 'null'
        ) asked join L l on ${keyIs('asked.k')} for update of l skip locked
      ) locked
    ) a
    where ${keyIs('a.k')} and not a.more and (a.claim = '' or a.expires_us <= a.us) and a.last_ended <> a.c
      and a.token < ${TOKEN_MAX}
    returning a.i, l.token
  )
  select array_agg(i), array_agg(token) into places, tokens from (select i, token from granted order by i) granted;
end $body$;

create or replace function F_acquire_new(j jsonb, inout tokens bigint[]) language plpgsql ${PLANS} as $body$
declare
  made jsonb;
begin
  with asked as materialized (
    select i, k, c, h, t::bigint as ttl from rows from (
      jsonb_array_elements_text(j->'k'), jsonb_array_elements_text(j->'c'), jsonb_array_elements_text(j->'h'),
      jsonb_array_elements_text(j->'t')) with ordinality as asked (k, c, h, t, i)
    where (j->'o'->(i::int - 1) is null or j->'o'->(i::int - 1) = 'null') and tokens[i] is null
  ), made as (
    insert into L as l (key, token, claim, holder, ttl_ms, granted_us, expires_us, changes)
    select a.k, greatest(n.us, n.pruned_token + 1), a.c, a.h, a.ttl, n.us, n.us + a.ttl * 1000, 1
    from asked a cross join (select pruned_token, ${NOW} as us from M offset 0) n
    where not exists (select from L l where ${keyIs('a.k')})
    order by a.k collate "C"
    on conflict do nothing
    returning key, token
  )
  select jsonb_object_agg(key, token) into made from made;
  if made is null then return; end if;
  for n in 1..cardinality(tokens) loop
    if tokens[n] is null then tokens[n] := (made->>(j->'k'->>(n - 1)))::bigint; end if;
  end loop;
end $body$;

create or replace function F_acquire(ops text, wait text, out plain text, out rest text) language plpgsql as $body$
declare
  j jsonb := ops;
  n int := jsonb_array_length(j->'k');
  k text := j->'k'->>0;
  c text := j->'c'->>0;
  h text := j->'h'->>0;
  ttl bigint := j->'t'->>0;
  places int[];
  tokens bigint[];
  given bigint[];
  answers jsonb := '{}';
  answer jsonb;
  r L;
  us bigint;
  i int;
begin
  ${NOT_READ_COMMITTED}
  if n = 1 then
    if j->'o' is null then
      select * into r from L where key = k for update skip locked;
      us := ${NOW};
      if found then
        if not r.more and (r.claim = '' or r.expires_us <= us) and r.last_ended <> c and r.token < ${TOKEN_MAX} then
          r.token := greatest(r.token + 1, us);
          update L set token = r.token, claim = c, holder = h, ttl_ms = ttl, granted_us = us, expires_us = us + ttl * 1000,
            revoked = false, changes = r.changes + 1, meta = null
          where key = k;
          plain := '[' || r.token || ']';
          return;
        end if;
      else
        perform set_config('lock_timeout', wait, true); -- of another who makes the same row
        insert into L (key, token, claim, holder, ttl_ms, granted_us, expires_us, changes)
        select k, greatest(us, pruned_token + 1), c, h, ttl, us, us + ttl * 1000, 1 from M
        on conflict do nothing returning token into r.token;
        if found then
          plain := '[' || r.token || ']';
          return;
        end if;
      end if;
    end if;
    perform set_config('lock_timeout', wait, true);
    plain := '[null]';
    rest := jsonb_build_object('0', F_acquire_one(k, c, h, ttl, (j->'p'->>0)::bigint, coalesce(j->'o'->0, '{}'), true));
    return;
  end if;

  select p.places, p.tokens into places, tokens from F_acquire_plain(j) p;
  if cardinality(places) is distinct from n then
    given := tokens;
    tokens := array_fill(null::bigint, array[n]);
    for i in 1..coalesce(cardinality(places), 0) loop
      tokens[places[i]] := given[i];
    end loop;
    perform set_config('lock_timeout', wait, true); -- of others who make the same rows
    tokens := F_acquire_new(j, tokens);
  end if;
  if array_position(tokens, null) is not null then
    for i in select place from generate_series(1, n) place where tokens[place] is null order by (j->'k'->>(place - 1)) collate "C" loop
      answer := F_acquire_one(j->'k'->>(i - 1), j->'c'->>(i - 1), j->'h'->>(i - 1), (j->'t'->>(i - 1))::bigint,
        (j->'p'->>(i - 1))::bigint, coalesce(nullif(j->'o'->(i - 1), 'null'), '{}'), false);
      answers := jsonb_set(answers, array[(i - 1)::text], coalesce(answer, '[-7]'));
    end loop;
    rest := answers;
  end if;
  plain := array_to_json(tokens);
end $body$;
`

/** Answers: 1 renewed, the reasons of a loss (0 to -3), -7 locked. */
const RENEW = `
create or replace function F_renew_plain(j jsonb, out places int[]) language plpgsql ${PLANS} as $body$
begin
  with renewed as (
    update L l set expires_us = greatest(a.expires_us, a.us + a.t::bigint * 1000)
    from (
      select *, ${NOW} as us from (
        select l.claim, l.expires_us, l.revoked, asked.* from rows from (
          jsonb_array_elements_text(j->'k'), jsonb_array_elements_text(j->'c'), jsonb_array_elements_text(j->'t'))
          with ordinality as asked (k, c, t, i)
        join L l on ${keyIs('asked.k')} for no key update of l skip locked
      ) locked
    ) a
    where ${keyIs('a.k')} and a.claim = a.c and a.us < a.expires_us and not a.revoked
    returning a.i
  )
  select array_agg(i) into places from renewed;
end $body$;

create or replace function F_renew(ops text, wait text, out plain text, out rest text) language plpgsql as $body$
declare
  j jsonb := ops;
  n int := jsonb_array_length(j->'k');
  places int[];
  done int[];
  i int;
begin
  ${NOT_READ_COMMITTED}
  if n = 1 then
    perform set_config('lock_timeout', wait, true);
    plain := '[' || F_renew_one(j->'k'->>0, j->'c'->>0, (j->'t'->>0)::bigint, true) || ']';
    return;
  end if;
  places := F_renew_plain(j);
  if cardinality(places) = n then
    plain := array_to_json(array_fill(1, array[n]));
    return;
  end if;
  done := array_fill(null::int, array[n]);
  for i in 1..coalesce(cardinality(places), 0) loop
    done[places[i]] := 1;
  end loop;
  for i in select place from generate_series(1, n) place where done[place] is null loop
    done[i] := F_renew_one(j->'k'->>(i - 1), j->'c'->>(i - 1), (j->'t'->>(i - 1))::bigint, false);
  end loop;
  plain := array_to_json(done);
end $body$;
`

/**
 * Answers as those of a renewal. A release does not wait for the disk: lost in a crash, it leaves a key taken for the rest of a term,
 * by a claim in which nobody believes; and whoever is granted the key next waits for the disk on its account as well.
 */
const RELEASE = `
create or replace function F_release_plain(j jsonb, out places int[]) language plpgsql ${PLANS} as $body$
begin
  with released as (
    update L l set claim = '', expires_us = a.us, revoked = false, last_ended = a.c
    from (
      select *, ${NOW} as us from (
        select l.claim, l.expires_us, l.more, asked.* from rows from (
          jsonb_array_elements_text(j->'k'), jsonb_array_elements_text(j->'c')) with ordinality as asked (k, c, i)
        join L l on ${keyIs('asked.k')} for no key update of l skip locked
      ) locked
    ) a
    where ${keyIs('a.k')} and a.claim = a.c and a.us < a.expires_us and not a.more
    returning a.i
  )
  select array_agg(i) into places from released;
end $body$;

create or replace function F_release(ops text, wait text, out plain text, out rest text) language plpgsql as $body$
declare
  j jsonb := ops;
  n int := jsonb_array_length(j->'k');
  k text := j->'k'->>0;
  c text := j->'c'->>0;
  places int[];
  done int[];
  r L;
  us bigint;
  i int;
begin
  ${NOT_READ_COMMITTED}
  perform set_config('synchronous_commit', 'off', true); -- of this transaction
  if n = 1 then
    select * into r from L where key = k for no key update skip locked;
    us := ${NOW};
    if found and r.claim = c and us < r.expires_us and not r.more then
      update L set claim = '', expires_us = us, revoked = false, last_ended = c where key = k;
      plain := '[1]';
      return;
    end if;
    perform set_config('lock_timeout', wait, true);
    plain := '[' || F_release_one(k, c, true) || ']';
    return;
  end if;
  places := F_release_plain(j);
  if cardinality(places) = n then
    plain := array_to_json(array_fill(1, array[n]));
    return;
  end if;
  done := array_fill(null::int, array[n]);
  for i in 1..coalesce(cardinality(places), 0) loop
    done[places[i]] := 1;
  end loop;
  for i in select place from generate_series(1, n) place where done[place] is null order by (j->'k'->>(place - 1)) collate "C" loop
    done[i] := F_release_one(j->'k'->>(i - 1), j->'c'->>(i - 1), false);
  end loop;
  plain := array_to_json(done);
end $body$;
`

/** The verbs that are rare enough to come one by one, and wait. */
const RARE = `
create or replace function F_withdraw(k text, c text, keep_ms bigint, wait text, out plain text) language plpgsql as $body$
declare
  r L;
  us bigint;
begin
  ${NOT_READ_COMMITTED}
  perform set_config('lock_timeout', wait, true);
  r := F_lock(k, true);
  us := ${NOW};
  r := F_forget(r, c, us, keep_ms, false);
  r := F_freed(r, us);
  perform F_write(r);
  plain := '1';
end $body$;

create or replace function F_record(r L, us bigint) returns text language sql as $body$
  select json_build_array(r.key, r.claim <> '' and us < r.expires_us, r.holder, r.claim, r.token, r.ttl_ms,
    case when r.claim <> '' and us < r.expires_us then (r.expires_us - us + 999) / 1000 else 0 end,
    case when r.claim <> '' and us < r.expires_us then greatest(0, us - r.granted_us) / 1000 else 0 end,
    r.changes, r.revoked, r.meta,
    (select json_agg(json_build_array(holder, greatest(0, us - since_us) / 1000) order by place) from W
      where key = r.key and fresh_us > us))::text
$body$;

create or replace function F_revoke(k text, force boolean, keep_ms bigint, wait text, out plain text) language plpgsql as $body$
declare
  r L;
  us bigint;
begin
  ${NOT_READ_COMMITTED}
  perform set_config('lock_timeout', wait, true);
  plain := 'null';
  select * into r from L where key = k for no key update;
  us := ${NOW};
  if not found or r.claim = '' or us >= r.expires_us then return; end if;
  plain := F_record(r, us);
  if force then
    r := F_forget(r, r.claim, us, keep_ms, true);
    r := F_freed(r, us);
  else
    r.revoked := true;
  end if;
  perform F_write(r);
end $body$;

create or replace function F_look(k text, c text, wait text, out plain text) language plpgsql as $body$
declare
  r L;
  us bigint;
begin
  ${NOT_READ_COMMITTED}
  perform set_config('lock_timeout', wait, true);
  select * into r from L where key = k for no key update;
  plain := '1';
  if not found or r.watched or exists (select from W where key = k and claim = c) then return; end if;
  r.watched := true;
  r.more := true;
  perform F_write(r);
end $body$;

create or replace function F_prune(after text, older_ms bigint, most int, out plain text) language plpgsql ${PLANS} as $body$
declare
  us bigint := ${NOW};
  last text;
  forgotten text[];
  biggest bigint;
begin
  ${NOT_READ_COMMITTED}
  select max(key) into last from (select key from L where key > after order by key limit most) page;
  perform from M for no key update;
  with old as materialized (
    select l.key, l.token from L l
    where l.key > after and l.key <= last and not (l.claim <> '' and us < l.expires_us) and l.expires_us <= us - older_ms * 1000
      and l.token <= us -- one ahead of the clock is kept until the clock has passed it
      and not exists (select from W where key = l.key and fresh_us > us)
      and not exists (select from E where key = l.key and until_us > us)
    for update of l skip locked
  )
  select array_agg(key), max(token) into forgotten, biggest from old;
  if forgotten is not null then
    update M set pruned_token = greatest(pruned_token, biggest);
    delete from W where key = any(forgotten);
    delete from E where key = any(forgotten);
    delete from L where key = any(forgotten);
  end if;
  plain := json_build_array(coalesce(cardinality(forgotten), 0), last);
end $body$;
`

export const VERBS: readonly string[] = [ACQUIRE, RENEW, RELEASE, RARE]
