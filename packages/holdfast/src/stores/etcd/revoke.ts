// An operator takes a lease back. The key is moved to an etcd lease of its own, as long as what is left: the holder's keep-alives
// no longer reach it, so its term runs out when it would have (G1). By force it goes at once.
import { StoreError } from '../../lease/errors.js'
import type { LeaseRecord } from '../../store/contract.js'
import type { Limits } from './gateway.js'
import { asRevoked, read, recordOf, run } from './key.js'
import { namesOf } from './names.js'
import { secondsOf } from './terms.js'
import { retentionOf, type Shared } from './verbs.js'
import { del, isModifiedAt, put } from './wire.js'

const TRIES = 10

/** Gives the record as it was; null when nobody held the key. */
export async function revoke(shared: Shared, key: string, force: boolean, limits: Limits): Promise<LeaseRecord | null> {
  const { gateway, terms, clock, prefix } = shared
  const names = namesOf(prefix, key)
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const at = await read(gateway, names, '', limits)
    if (at.held === undefined) return null
    const { claim, kv } = at.held
    const leftMs = await terms.left(kv.lease ?? '0', limits)
    if (leftMs === 0) continue // about to go by itself
    const record = recordOf(key, at, leftMs, clock.wallMs())
    if (at.held.revoked && !force) return record
    const success = force
      ? await forced()
      : [put(names.held, asRevoked(claim), (await terms.grant(secondsOf(leftMs), limits)).id)]
    const compare = [isModifiedAt(names.held, kv.mod_revision ?? '0')]
    const answer = await run(gateway, 'a revocation', { compare, success }, limits)
    if (answer.succeeded === true) return record

    async function forced() {
      const retained = await terms.retain(retentionOf(shared, at.grant?.value.ttlMs), limits)
      return [
        del({ key: names.held }),
        put(names.last, claim, retained.id),
        put(names.ended(claim), 'revoked', retained.id),
      ]
    }
  }
  throw new StoreError(`"${key}" changed hands ${TRIES} times meanwhile: nothing was revoked`, { outcome: 'none' })
}
