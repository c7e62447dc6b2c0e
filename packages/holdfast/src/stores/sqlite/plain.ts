// The plain cases of the three verbs that programs live by, in one statement each: half of the time of a transaction that reads
// a row, decides and writes it. A statement is a write transaction of its own; its WHERE says when it decides as
// `store/protocol.ts` does, and in every other case it changes nothing and the protocol's own functions are asked. A property
// test runs random histories through both and compares the rows.
//
// The clock is read just before the statement takes the lock (which it has at once, or is refused). A process that is stopped
// between the two comes late with an old time; so a statement applies only if the key was last written no later than that
// time. Then it stands where its time puts it: after all that was decided on this key, before all that will be (G1, G4).
import type { Granted, ReleaseOutcome, RenewOutcome } from '../../store/contract.js'
import type { SqliteDatabase, SqliteStatement } from './client.js'

/** (key, token, claim, holder, ttl, now, expiry, now, offset, token): free, nobody waits (so it is not reserved), no claims to remember but the last. */
const ACQUIRE = `INSERT INTO holdfast_lease
  SELECT ?, ?, ?, ?, ?, ?, ?, 0, 1, NULL, '', NULL, NULL, 0, ? FROM holdfast_file WHERE offset_ms = ? AND pruned_token < ?
  ON CONFLICT (key) DO UPDATE SET token = excluded.token, claim = excluded.claim, holder = excluded.holder,
    ttl_ms = excluded.ttl_ms, granted_ms = excluded.granted_ms, expires_ms = excluded.expires_ms, revoked = 0,
    changes = changes + 1, meta = NULL, at_ms = excluded.at_ms
  WHERE token < excluded.token AND expires_ms <= excluded.at_ms AND at_ms <= excluded.at_ms
    AND last_ended <> excluded.claim AND ended IS NULL AND queue IS NULL`

/** (now + ttl, now, key, claim, now, now, offset): held by this claim, not revoked. */
const RENEW = `UPDATE holdfast_lease SET expires_ms = max(expires_ms, ?), at_ms = ?
  WHERE key = ? AND claim = ? AND expires_ms > ? AND at_ms <= ? AND revoked = 0
    AND (SELECT offset_ms FROM holdfast_file) = ?`

/** (now, key, claim, now, now, offset): held by this claim, nobody waits. */
const RELEASE = `UPDATE holdfast_lease SET claim = '', expires_ms = 0, revoked = 0, last_ended = claim, at_ms = ?
  WHERE key = ? AND claim = ? AND expires_ms > ? AND at_ms <= ? AND queue IS NULL
    AND (SELECT offset_ms FROM holdfast_file) = ?`

/** What an acquire needs for the plain case. */
export interface PlainAcquire {
  readonly key: string
  readonly claim: string
  readonly holder: string
  readonly ttlMs: number
}

/** The time of a plain statement: the machine's, and the offset of the file when it was last read. */
export interface PlainTime {
  readonly nowMs: number
  readonly offsetMs: number
}

const RELEASED: ReleaseOutcome = { is: 'released' }

/** The plain statements of one connection. Each gives undefined when the case is not a plain one; then nothing was changed. */
export class Plain {
  readonly #acquire: SqliteStatement
  readonly #renew: SqliteStatement
  readonly #release: SqliteStatement

  constructor(db: SqliteDatabase) {
    this.#acquire = db.prepare(ACQUIRE)
    this.#renew = db.prepare(RENEW)
    this.#release = db.prepare(RELEASE)
  }

  acquire(
    { key, claim, holder, ttlMs }: PlainAcquire,
    token: number,
    { nowMs, offsetMs }: PlainTime,
  ): Granted | undefined {
    const expiresMs = nowMs + ttlMs
    const { changes } = this.#acquire.run(key, token, claim, holder, ttlMs, nowMs, expiresMs, nowMs, offsetMs, token)
    return changes === 0 ? undefined : { is: 'granted', token, ttlMs }
  }

  renew(key: string, claim: string, ttlMs: number, { nowMs, offsetMs }: PlainTime): RenewOutcome | undefined {
    const { changes } = this.#renew.run(nowMs + ttlMs, nowMs, key, claim, nowMs, nowMs, offsetMs)
    return changes === 0 ? undefined : { is: 'renewed', ttlMs }
  }

  release(key: string, claim: string, { nowMs, offsetMs }: PlainTime): ReleaseOutcome | undefined {
    const { changes } = this.#release.run(nowMs, key, claim, nowMs, nowMs, offsetMs)
    return changes === 0 ? undefined : RELEASED
  }
}
