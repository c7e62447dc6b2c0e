// The table of records and its statements. What idempotency/protocol.ts says in TypeScript is said here as conditions of one statement
// a verb, so that a run costs one round trip to begin and one to record; refusals are read off the row by the protocol itself.
import { identifier, literal } from './names.js'
import { NOW } from './plpgsql.js'

/** Where the records are. */
export interface PostgresRecordsNames {
  /** The schema, made if need be. Default `public`. */
  readonly schema?: string
  /** The table. Default `holdfast_record`. */
  readonly table?: string
}

/** The statements on one table. Instants are in µs of the server's clock, what callers give is in ms. */
export interface RecordsSql {
  /** To be run in one transaction; it may be run again, and by many at once. */
  readonly schema: readonly string[]
  /** (claim) → whether the table is there. Leaves a mark that lasts as long as the transaction. */
  readonly mark: string
  /** (key, claim, fingerprint, holder, ttl, retention, take over) → the row, and whether this claim runs; no row: ask again. */
  readonly begin: string
  /** The same within the application's transaction, and whether it is inside of one. */
  readonly beginInside: string
  /** (key, claim, ttl, retention) → a row, if extended. */
  readonly extend: string
  /** (key, claim, retention, state, text) → a row, if it was running. */
  readonly done: string
  /** (key, claim, retention, whether to forget) → a row, if it was running. */
  readonly leave: string
  /** (key, claim) */
  readonly withdraw: string
  /** (key) → the row. */
  readonly look: string
  /** (first page, first page not to be looked at) → how many were forgotten, and the pages of the table. */
  readonly prune: string
}

/** `state`: 0 free, 1 running, 2 returned, 3 threw. Nothing but the key has an index, so that a record rewrites its row in its page. */
const tableText = (name: string) => `create table if not exists ${name} (
  key text collate "C" primary key,
  state smallint not null,
  fingerprint text collate "C" not null,
  claim text collate "C" not null,
  holder text not null,
  token bigint not null,
  attempt int not null,
  after_unknown boolean not null,
  term_us bigint not null,
  keep_us bigint not null,
  end_text text
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1)`

const COLUMNS = 'state, fingerprint, claim, holder, token, attempt, after_unknown, term_us, keep_us, end_text'

/**
 * Whether the mark is still there: outside a transaction it went with its own statement. (The time at which transaction and statement
 * began does not tell: with the extended protocol they differ outside too.)
 */
const MARKED = "coalesce(current_setting('holdfast.run', true), '') = $2"

/** Whether the claim that runs asks once more. After its term it is as any other that takes over. */
const REPEATED = `r.state = 1 and r.claim = excluded.claim
      and ${NOW} < case when $7::boolean then r.term_us else r.keep_us end`

/** So many µs a claim that ended is remembered beyond its term: ENDED_RETENTION_MS of the protocol. */
const ENDED_US = 60_000_000

export function recordsSql({ schema = 'public', table = 'holdfast_record' }: PostgresRecordsNames = {}): RecordsSql {
  const inSchema = identifier('schema', schema)
  const name = `${inSchema}.${identifier('table', table)}`

  const begin = (inside: boolean) => `with ran as (
  insert into ${name} as r (key, ${COLUMNS})
  select $1::text, 1, $3::text, $2::text, $4::text, ${NOW}, 1, false, ${NOW} + $5::bigint * 1000,
    ${NOW} + ($5::bigint + $6::bigint) * 1000, null::text${inside ? ` where ${MARKED}` : ''}
  on conflict (key) do update set
    state = 1, fingerprint = excluded.fingerprint, claim = excluded.claim, holder = excluded.holder, end_text = null,
    token = case when ${REPEATED} then r.token else greatest(r.token + 1, ${NOW}) end,
    attempt = case when ${REPEATED} then r.attempt
      when ${NOW} >= r.keep_us then 1 else r.attempt + 1 end,
    after_unknown = case when ${REPEATED} then r.after_unknown
      else r.state = 1 and ${NOW} < r.keep_us end,
    term_us = case when ${REPEATED} then greatest(r.term_us, ${NOW} + $5::bigint * 1000)
      else ${NOW} + $5::bigint * 1000 end,
    keep_us = case when ${REPEATED} then greatest(r.term_us, ${NOW} + $5::bigint * 1000) else ${NOW} + $5::bigint * 1000 end
      + $6::bigint * 1000
  where ${NOW} >= r.keep_us
    or (r.state = 0 and r.claim <> excluded.claim)
    or (r.state = 1 and r.fingerprint = excluded.fingerprint
      and (($7::boolean and ${NOW} >= r.term_us) or (r.claim = excluded.claim and ${NOW} < r.term_us)))
  returning ${COLUMNS}
), found as (
  select true as ran, * from ran
  union all
  select false, ${COLUMNS} from ${name} where key = $1 and not exists (select from ran)
)
select ${inside ? `i.inside, found.*, ${NOW} as us from (select ${MARKED} as inside) i left join found on true` : `found.*, ${NOW} as us from found`}`

  return {
    schema: [
      `select set_config('client_min_messages', 'warning', true), pg_advisory_xact_lock(hashtextextended(${literal(`holdfast ${name}`)}, 0))`,
      `do $do$ begin
  if to_regnamespace(${literal(inSchema)}) is null then execute ${literal(`create schema ${inSchema}`)}; end if;
end $do$`,
      tableText(name),
    ],
    mark: `select to_regclass(${literal(name)}) is not null as there, set_config('holdfast.run', $1::text, true)`,
    begin: begin(false),
    beginInside: begin(true),
    extend: `update ${name} set term_us = greatest(term_us, ${NOW} + $3::bigint * 1000),
  keep_us = greatest(term_us, ${NOW} + $3::bigint * 1000) + $4::bigint * 1000
where key = $1 and claim = $2 and state = 1 and term_us > ${NOW} returning 1 as one`,
    done: `update ${name} set state = $4::smallint, end_text = $5::text, term_us = 0, keep_us = ${NOW} + $3::bigint * 1000
where key = $1 and claim = $2 and state = 1 and keep_us > ${NOW} returning 1 as one`,
    leave: `update ${name} set
  state = case when after_unknown or not $4::boolean then 1 else 0 end,
  fingerprint = case when after_unknown or not $4::boolean then fingerprint else '' end,
  holder = case when after_unknown or not $4::boolean then holder else '' end,
  term_us = case when after_unknown or not $4::boolean then least(term_us, ${NOW}) else 0 end,
  keep_us = case when after_unknown or not $4::boolean then ${NOW} + $3::bigint * 1000
    else greatest(term_us, ${NOW}) + ${ENDED_US} end
where key = $1 and claim = $2 and state = 1 and keep_us > ${NOW} returning 1 as one`,
    withdraw: `insert into ${name} as r (key, ${COLUMNS})
values ($1, 0, '', $2, '', 0, 0, false, 0, ${NOW} + ${ENDED_US}, null)
on conflict (key) do update set
  claim = excluded.claim, end_text = null,
  state = case when ${NOW} < r.keep_us and r.after_unknown then 1 else 0 end,
  fingerprint = case when ${NOW} < r.keep_us and r.after_unknown then r.fingerprint else '' end,
  holder = case when ${NOW} < r.keep_us and r.after_unknown then r.holder else '' end,
  attempt = case when ${NOW} < r.keep_us then r.attempt else 0 end,
  after_unknown = ${NOW} < r.keep_us and r.after_unknown,
  term_us = case when ${NOW} < r.keep_us and r.after_unknown then least(r.term_us, ${NOW}) else 0 end,
  keep_us = case when ${NOW} < r.keep_us and r.after_unknown then r.keep_us
    else greatest(r.term_us, ${NOW}) + ${ENDED_US} end
where ${NOW} >= r.keep_us or (r.state = 1 and r.claim = excluded.claim)`,
    look: `select ${COLUMNS}, ${NOW} as us from ${name} where key = $1`,
    prune: `with gone as (
  delete from ${name} where ctid >= $1::text::tid and ctid < $2::text::tid and keep_us <= ${NOW} returning 1
)
select (select count(*) from gone)::int as gone, (pg_relation_size(${literal(name)}::regclass) / current_setting('block_size')::int)::int as pages`,
  }
}

/**
 * The SQL that makes the table of records, for those who run it by hand (`migrate: false`). One transaction; it may be run again,
 * and by many at once.
 *
 * Throws InvalidArgumentError for names that Postgres would not take as they are.
 *
 * @example
 * ```ts
 * const sql = postgresRecordsSchema({ schema: 'billing' })
 * ```
 */
export function postgresRecordsSchema(options: PostgresRecordsNames = {}): string {
  return `-- Holdfast: records, version 1\nbegin;\n${recordsSql(options).schema.join(';\n')};\ncommit;\n`
}
