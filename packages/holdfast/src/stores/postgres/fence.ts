// Fences for the application's own tables: check and write are one step, since both stand in the application's transaction (G7). The
// row of the fence stays locked until that transaction ends, so that nobody comes between the check and the commit.
import { type AdmitOptions, checkGrant, resourceOf } from '../../fence/fence.js'
import { InvalidArgumentError, LeaseLostError, StaleTokenError } from '../../lease/errors.js'
import type { Grant } from '../../store/contract.js'
import { type PostgresTransaction, rowsOf } from './application.js'
import { codeOf } from './failure.js'
import { identifier, literal, namesOf, type PostgresNames } from './names.js'
import { NOW } from './plpgsql.js'

/** What `postgresFence` takes. */
export interface PostgresFenceOptions {
  /** Where the fence's table is: made if need be. Default `public`. */
  readonly schema?: string
  /** Where the fence keeps what it admitted. Default `holdfast_fence`. */
  readonly table?: string
  /** Where the leases are, for `whileHeld`: what `postgresStore` was given. */
  readonly leases?: PostgresNames
}

/** A statement for a query builder, or any code that runs its SQL itself. */
export interface PostgresFenceStatement {
  /** With `$1`, `$2`, … */
  readonly sql: string
  readonly params: readonly (string | number)[]
}

/** The fence as a column of the user's own table. */
export interface PostgresFencePredicate {
  /** For the SET of an UPDATE: `"fence" = ` and the token. */
  readonly set: string
  /** For its WHERE: `("fence" is null or "fence" <= ` the token `)`. */
  readonly where: string
  /** The token, as it stands in both. */
  readonly value: number
  /**
   * Says what became of the UPDATE, given how many rows it changed and how to read the fence column of the row (undefined: there
   * is no such row). Rejects with StaleTokenError when the row has seen a bigger token (G7); `not matched`: another condition of
   * the WHERE did not hold.
   */
  verify(
    changes: number | bigint | null,
    read: () => Promise<number | bigint | string | null | undefined> | number | bigint | string | null | undefined,
  ): Promise<'written' | 'no such row' | 'not matched'>
}

/** A fence in an application's Postgres database. */
export interface PostgresFence {
  /** The SQL that makes the fence's table and the function of its triggers, if they are not there. */
  readonly schema: string
  /** Makes them. To be called once, before the first `admit`. */
  install(db: PostgresTransaction): Promise<void>
  /**
   * Admits the grant's writes for the rest of this transaction, or rejects with StaleTokenError when a bigger token, or an equal one
   * of another claim, was admitted before (G7): let it roll the transaction back. Others' checks of the same resource wait for the
   * end of the transaction. Rejects with InvalidArgumentError outside a transaction, and for what is no grant.
   */
  admit(tx: PostgresTransaction, grant: Grant, options?: AdmitOptions): Promise<void>
  /** The same check as a statement: run it in the transaction of the writes, and give its rows to `verify`. */
  statement(grant: Grant, options?: AdmitOptions): PostgresFenceStatement
  /** The verdict on the rows of `statement`: throws StaleTokenError when the grant was refused (G7). */
  verify(rows: readonly unknown[]): void
  /**
   * The check as parts of an UPDATE of the user's own row, which keeps the token in a column of type bigint. One column holds no
   * claim: of two claims with one token both are admitted.
   */
  predicate(grant: Grant, options?: { readonly column?: string }): PostgresFencePredicate
  /** The SQL of a trigger that refuses any UPDATE of `table` that lowers its fence column, whoever sends it. */
  trigger(options: { readonly table: string; readonly schema?: string; readonly column?: string }): string
  /**
   * Ties this transaction to the lease, where both are in one database: until it has ended, nobody else is granted the lease (G1), also
   * when its term runs out meanwhile. Renewals and the release go on beside it. Rejects with LeaseLostError when the grant does not
   * hold any more, and with InvalidArgumentError outside a transaction. Above READ COMMITTED, where a transaction sees the lease as it was
   * when it began: with a serialization failure when another has been granted it since; a term that has run out is not noticed.
   */
  whileHeld(tx: PostgresTransaction, grant: Grant): Promise<void>
}

/**
 * A fence for the tables that the application writes.
 *
 * @example
 * ```ts no-run
 * const fence = postgresFence()
 * await leases.hold('reports/daily', async ({ grant }) => {
 *   const tx = await pool.connect()
 *   try {
 *     await tx.query('begin')
 *     await fence.admit(tx, grant) // rejects with StaleTokenError when a later holder has written
 *     await tx.query("update reports set body = 'all is well' where id = 'daily'")
 *     await tx.query('commit')
 *   } catch (error) {
 *     await tx.query('rollback')
 *     throw error
 *   } finally {
 *     tx.release()
 *   }
 * })
 * ```
 */
export function postgresFence(options: PostgresFenceOptions = {}): PostgresFence {
  const { schema: inSchema = 'public', table = 'holdfast_fence' } = options
  const at = identifier('schema', inSchema)
  const name = `${at}.${identifier('table', table)}`
  const trigger = `${at}.holdfast_fence`
  const { leases } = namesOf(options.leases)
  const schema = `select set_config('client_min_messages', 'warning', true), pg_advisory_xact_lock(hashtextextended('holdfast_fence', 0));
do $do$ begin
  if to_regnamespace(${literal(at)}) is null then execute ${literal(`create schema ${at}`)}; end if;
end $do$;
create table if not exists ${name} (
  resource text collate "C" primary key,
  token bigint not null,
  claim text not null
) with (fillfactor = 70);
create or replace function ${trigger}() returns trigger language plpgsql as $body$
declare
  before bigint := (to_jsonb(old)->>tg_argv[0])::bigint;
  after bigint := (to_jsonb(new)->>tg_argv[0])::bigint;
begin
  if before is not null and (after is null or after < before) then
    raise exception 'stale token %: this row of % has been written under token %', after, tg_table_name, before
      using errcode = 'HF001', hint = 'a later holder of the lease has written: stop this work';
  end if;
  return new;
end $body$;
`

  // (resource, token, claim) → resource, admitted, asked, ok. A row in any case.
  const statementText = `with asked (resource, token, claim) as (values ($1::text, $2::bigint, $3::text)),
admitted as (
  insert into ${name} as f (resource, token, claim) select * from asked
  on conflict (resource) do update set token = greatest(f.token, excluded.token),
    claim = case when excluded.token > f.token then excluded.claim else f.claim end
  returning resource, token, claim
)
select f.resource, f.token::text as admitted, asked.token::text as asked, f.token = asked.token and f.claim = asked.claim as ok
from admitted f, asked`

  // Above READ COMMITTED the term is that of the transaction's snapshot, and may have been renewed since: only the tie counts there.
  const heldText = `with lease as materialized (
  select claim, expires_us, revoked from ${leases} where key = $1 and token = $2 for key share
), timed as materialized (
  select *, ${NOW} as us from lease
)
select (select case when claim = $3 and not revoked and (us < expires_us or current_setting('transaction_isolation') <> 'read committed')
  then 'held' when claim = $3 and revoked then 'revoked'
  when claim = $3 then 'expired' when claim = '' then 'released' else 'taken' end
  from timed) as is`

  function statement(grant: Grant, admit?: AdmitOptions): PostgresFenceStatement {
    checkGrant(grant)
    return { sql: statementText, params: [resourceOf(grant, admit), grant.token, grant.claim] }
  }

  function verify(rows: readonly unknown[]): void {
    const row = Array.isArray(rows) && rows.length === 1 ? (rows[0] as unknown) : undefined
    if (typeof row !== 'object' || row === null) throw noRows(rows)
    const [resource, admitted, asked, ok] = Array.isArray(row)
      ? row
      : ['resource', 'admitted', 'asked', 'ok'].map((column) => (row as Record<string, unknown>)[column])
    if (typeof resource !== 'string' || typeof ok !== 'boolean') throw noRows(rows)
    if (!ok) throw new StaleTokenError(resource, Number(asked), Number(admitted))
  }

  return {
    schema,
    statement,
    verify,

    async install(db) {
      await rowsOf(db, schema, [])
    },

    async admit(tx, grant, admit) {
      const { sql, params } = statement(grant, admit)
      await checkTransaction(tx, name)
      verify(await rowsOf(tx, sql, [...params]))
    },

    predicate(grant, { column = 'fence' } = {}) {
      checkGrant(grant)
      const quoted = identifier('column', column)
      const { key, token } = grant
      return {
        set: `${quoted} = ${token}`,
        where: `(${quoted} is null or ${quoted} <= ${token})`,
        value: token,
        async verify(changes, read) {
          if (Number(changes) > 0) return 'written'
          const seen = await read()
          if (seen === undefined) return 'no such row'
          if (seen !== null && BigInt(seen) > BigInt(token)) throw new StaleTokenError(key, token, Number(seen))
          return 'not matched'
        },
      }
    },

    trigger({ table: guarded, schema: guardedSchema = 'public', column = 'fence' }) {
      const on = `${identifier('schema', guardedSchema)}.${identifier('table', guarded)}`
      // One statement, that may be run again (`create or replace trigger` came with Postgres 14). A column that is not there is an error
      // here: the function would find nothing to compare, and let everything through.
      return `do ${literal(`begin
  perform ${identifier('column', column)} from ${on} limit 0;
  if exists (select from pg_trigger where tgrelid = ${literal(on)}::regclass and tgname = 'holdfast_fence') then
    drop trigger holdfast_fence on ${on};
  end if;
  create trigger holdfast_fence before update on ${on} for each row execute function ${trigger}(${literal(column)});
end`)}`
    },

    async whileHeld(tx, grant) {
      checkGrant(grant)
      await checkTransaction(tx, leases)
      const [row] = await rowsOf(tx, heldText, [grant.key, grant.token, grant.claim])
      const { is } = row as { is: 'held' | 'taken' | null }
      if (is !== 'held') throw new LeaseLostError(grant.key, grant.token, is ?? 'taken')
    },
  }
}

/** Refuses what is no open transaction. `table`: one that the statements after it read. */
async function checkTransaction(tx: PostgresTransaction, table: string): Promise<void> {
  if (isOpen(tx) ?? (await isOpenAtTheServer(tx, table))) return
  throw new InvalidArgumentError(
    'tx',
    tx,
    "must be a transaction that is open, so that the check and your writes are one step: a client of pg after begin (not the pool), or the tx of postgres.js's sql.begin; for query builders there are fence.statement and fence.verify",
  )
}

/** What a client itself knows: pg since 8.21, and what postgres.js hands to `begin`. Others do not tell. */
function isOpen(tx: unknown): boolean | undefined {
  if (typeof tx === 'function') return 'savepoint' in tx
  if (typeof tx !== 'object' || tx === null || 'totalCount' in tx) return false
  const { getTransactionStatus } = tx as { getTransactionStatus?: () => string | null }
  return typeof getTransactionStatus === 'function' ? getTransactionStatus.call(tx) === 'T' : undefined
}

/** The server refuses this statement outside a transaction. */
async function isOpenAtTheServer(tx: PostgresTransaction, table: string): Promise<boolean> {
  try {
    await rowsOf(tx, `lock table ${table} in access share mode`, [])
    return true
  } catch (error) {
    if (codeOf(error) === '25P01') return false
    throw error
  }
}

const noRows = (rows: unknown) =>
  new InvalidArgumentError(
    'rows',
    rows,
    'must be the rows that fence.statement returned, in the transaction of your writes',
  )
