// The tables and functions of the store, as one text: run by the store at its first use, or by hand. It can be run again, and by
// many at once. Nothing that a renewal changes has an index, and pages have room, so that a renewal rewrites its row in its page
// (a HOT update) and leaves nothing behind for long.
import { literal, type Names, namesOf, type PostgresNames, VERSION } from './names.js'
import { PARTS } from './plpgsql.js'
import { VERBS } from './verbs.js'

const TABLES = `
create table if not exists L (
  key text collate "C" primary key,
  token bigint not null,
  claim text not null default '',
  holder text not null default '',
  ttl_ms bigint not null default 0,
  granted_us bigint not null default 0,
  expires_us bigint not null default 0,
  changes bigint not null default 0,
  revoked boolean not null default false,
  more boolean not null default false,
  watched boolean not null default false,
  reserved_us bigint not null default 0,
  last_ended text not null default '',
  meta text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 1);

create table if not exists W (
  key text collate "C" not null,
  place bigint not null,
  claim text not null,
  holder text not null,
  since_us bigint not null,
  poll_ms bigint not null,
  fresh_us bigint not null,
  primary key (key, claim),
  unique (key, place)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create table if not exists E (
  key text collate "C" not null,
  claim text not null,
  until_us bigint not null,
  revoked boolean not null,
  primary key (key, claim)
);

create table if not exists M (
  one boolean primary key default true check (one),
  version int not null,
  pruned_token bigint not null default 0
);
insert into M (version) values (${VERSION}) on conflict do nothing;
`

/**
 * The SQL that makes the store's tables and functions, for those who run it by hand (`migrate: false`). One transaction; it may
 * be run again, and by many at once.
 *
 * Throws InvalidArgumentError for names that Postgres would not take as they are.
 *
 * @example
 * ```ts
 * const sql = postgresSchema({ schema: 'leases' })
 * ```
 */
export function postgresSchema(options: PostgresNames = {}): string {
  return `-- Holdfast: leases, version ${VERSION}\nbegin;\n${schemaText(namesOf(options))}\ncommit;\n`
}

/** The same without `begin` and `commit`: sent as one query it is one transaction, and leaves none open when it fails. */
export function schemaText(names: Names): string {
  const body = [TABLES, ...PARTS, ...VERBS].map((part) => named(part, names).trim()).join('\n\n')
  return `select set_config('client_min_messages', 'warning', true), pg_advisory_xact_lock(hashtextextended(${literal(names.channel)}, 0));
do $do$ begin
  if to_regnamespace(${literal(names.schema)}) is null then execute ${literal(`create schema ${names.schema}`)}; end if;
end $do$;

${body}
`
}

/** The text of a part, with the names in it. */
const named = (part: string, names: Names): string =>
  part.replaceAll(/\b(?:([LWEM])|F_(\w+)|CHANNEL)\b/g, (_, table?: string, fn?: string) => {
    if (fn !== undefined) return names.fn(fn)
    if (table === undefined) return literal(names.channel)
    return { L: names.leases, W: names.waiters, E: names.ended, M: names.meta }[table] ?? ''
  })
