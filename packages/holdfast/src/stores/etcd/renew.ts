// Renewal of many: one request keeps their etcd leases alive, where that is due, then one for each 128 says whose keys are still on
// them. In this order, since a key that was withdrawn or revoked in between is no longer on the lease that was kept.
import { StoreError } from '../../lease/errors.js'
import type { RenewOutcome, RenewRequest } from '../../store/contract.js'
import { inParallel } from '../../store/observed/parallel.js'
import type { Limits } from './gateway.js'
import { asHeld, heldBy, read, run, whyLost } from './key.js'
import { namesOf } from './names.js'
import { leave, retire, type SharedTerm } from './sharing.js'
import { endOf, type Term } from './terms.js'
import { forgetClaim, type Shared, termFor } from './verbs.js'
import { get, hasValue, isOnLease, type KeyValue, nested, put, type TxnAnswer } from './wire.js'

/** As many operations as a transaction may have by default (--max-txn-ops). */
const READ_AT_ONCE = 128
const REQUESTS_AT_ONCE = 16
/** Each a transaction of three operations inside one. */
const MOVED_AT_ONCE = 64
/** When somebody moves the key to another lease meanwhile. */
const TRIES = 4

/** A lease whose outcome is open, and the etcd lease on which its key is, as far as known. */
interface Open {
  readonly lease: RenewRequest
  readonly place: number
  /** One of this process. */
  readonly term: Term | undefined
  /** The id of another. */
  readonly id: string | undefined
}

type Staying = Open & { readonly term: Term }

interface Moving {
  readonly one: Open
  readonly from: string
}

type Settle = (one: Open, said: RenewOutcome | { readonly is: 'elsewhere'; readonly id: string | undefined }) => void

export async function renew(shared: Shared, leases: readonly RenewRequest[], limits: Limits): Promise<RenewOutcome[]> {
  const cause = new StoreError(`the key was moved ${TRIES} times meanwhile`, { outcome: 'unknown' })
  const outcomes: RenewOutcome[] = leases.map(() => ({ is: 'unknown', cause }))
  let open: Open[] = leases.map((lease, place) => ({
    lease,
    place,
    term: shared.held.get(lease.key, lease.claim)?.term,
    id: undefined,
  }))
  // All of them before any is judged: whoever asks is no reason to give an etcd lease up.
  for (const { lease, term } of open) {
    if (isShared(term) && lease.shares === true) shared.sharing.asked(term, lease.key, lease.claim)
  }
  for (let attempt = 1; open.length > 0 && attempt <= TRIES; attempt++) {
    const terms = new Set(open.map(({ term }) => term))
    const fit = new Set([...terms].filter((term) => !isShared(term) || shared.sharing.isFit(term)))
    const staying: Staying[] = []
    const going: Open[] = []
    for (const one of open) {
      const { lease, term } = one
      const stays =
        term !== undefined &&
        fit.has(term) &&
        term.seconds * 1_000 >= lease.ttlMs &&
        (term.shared === undefined || lease.shares === true)
      if (stays) staying.push({ ...one, term })
      else going.push(one)
    }
    const again: Open[] = []
    const settle = (one: Open, said: RenewOutcome | { readonly is: 'elsewhere'; readonly id: string | undefined }) => {
      if (said.is === 'elsewhere') again.push({ ...one, term: undefined, id: said.id })
      else outcomes[one.place] = said
    }
    await Promise.all([keepAlive(shared, staying, limits, settle), move(shared, going, limits, settle)])
    open = again
  }
  for (const [place, { key, claim }] of leases.entries()) {
    if (outcomes[place]?.is === 'lost') forgetClaim(shared, key, claim)
  }
  return outcomes
}

/** Keeps their etcd leases alive, then looks whose keys are still on them. */
async function keepAlive(shared: Shared, staying: readonly Staying[], limits: Limits, settle: Settle): Promise<void> {
  if (staying.length === 0) return
  const sentMs = shared.timeline.now()
  const isDue = ({ lease, term }: Staying) => term.shared === undefined || endOf(term) < sentMs + lease.ttlMs
  try {
    const due = [...new Set(staying.filter(isDue).map(({ term }) => term))]
    const gone = new Set(await shared.terms.keep(due, limits))
    const now = await standing(shared, staying, limits)
    await inParallel([...staying.entries()], REQUESTS_AT_ONCE, async ([i, one]) => {
      const { lease, term } = one
      const at = on(now[i], lease.claim)
      if (at === undefined) settle(one, await lost(shared, lease, limits))
      else if (at !== term.id) settle(one, { is: 'elsewhere', id: at })
      else if (gone.has(term)) settle(one, { is: 'lost', reason: 'expired' })
      else settle(one, renewed(lease, term, sentMs))
    })
  } catch (cause) {
    for (const one of staying) settle(one, { is: 'unknown', cause })
  }
}

/**
 * Puts keys on other etcd leases: longer ones; fresh ones, when the one they share with others may no longer be kept alive; and
 * those of this process, when the claim was granted elsewhere, or with a reply that was lost.
 */
async function move(shared: Shared, going: readonly Open[], limits: Limits, settle: Settle): Promise<void> {
  const parts: (readonly Open[])[] = []
  for (let first = 0; first < going.length; first += MOVED_AT_ONCE)
    parts.push(going.slice(first, first + MOVED_AT_ONCE))
  await inParallel(parts, REQUESTS_AT_ONCE, async (part) => {
    try {
      await movePart(shared, part, limits, settle)
    } catch (cause) {
      for (const one of part) settle(one, { is: 'unknown', cause })
    }
  })
}

async function movePart(shared: Shared, part: readonly Open[], limits: Limits, settle: Settle): Promise<void> {
  const sentMs = shared.timeline.now()
  const unknown = part.filter(({ term, id }) => term === undefined && id === undefined)
  const found = await standing(shared, unknown, limits)
  const known = new Map(unknown.map((one, i) => [one, on(found[i], one.lease.claim)]))
  const moving = new Map<string, Moving>()
  for (const one of part) {
    const from = one.term?.id ?? one.id ?? known.get(one)
    if (from === undefined) settle(one, await lost(shared, one.lease, limits))
    // etcd takes no key twice in one transaction.
    else if (moving.has(one.lease.key)) settle(one, { is: 'elsewhere', id: from })
    else moving.set(one.lease.key, { one, from })
  }
  const moves = [...moving.values()]
  if (moves.length === 0) return
  // A term that is not this process's may be longer: a renewal shortens none.
  const ttls = await Promise.all(
    moves.map(async ({ one: { lease, term }, from }) =>
      term === undefined ? Math.max(lease.ttlMs, await shared.terms.left(from, limits)) : lease.ttlMs,
    ),
  )
  const targets = await Promise.all(
    moves.map(({ one }, i) => termFor(shared, { ...one.lease, ttlMs: ttls[i] as number }, limits)),
  )
  const success = moves.map(({ one: { lease }, from }, i) => {
    const { held } = namesOf(shared.prefix, lease.key)
    const value = asHeld(lease.claim)
    const compare = [hasValue(held, value), isOnLease(held, from)]
    return nested({ compare, success: [put(held, value, targets[i]?.id)], failure: [get({ key: held })] })
  })
  let answer: TxnAnswer
  try {
    answer = await run(shared.gateway, 'a renewal', { success }, limits)
  } catch (error) {
    for (const target of targets) retire(target)
    throw error
  }
  for (const [i, { one }] of moves.entries()) {
    const { key, claim } = one.lease
    const ttlMs = ttls[i] as number
    const target = targets[i] as Term
    const inner = answer.responses?.[i]?.response_txn
    if (inner?.succeeded === true) {
      if (one.term !== undefined && one.term !== target) leave(one.term, key, claim)
      shared.held.set(key, claim, { term: target, ttlMs })
      settle(one, renewed(one.lease, target, sentMs))
      continue
    }
    leave(target, key, claim)
    shared.terms.giveBack(target, ttlMs)
    const at = on(inner?.responses?.[0]?.response_range?.kvs?.[0], claim)
    settle(one, at === undefined ? await lost(shared, one.lease, limits) : { is: 'elsewhere', id: at })
  }
}

/** At least what was asked, from when it was asked. */
const renewed = ({ ttlMs }: RenewRequest, term: Term, sentMs: number): RenewOutcome => ({
  is: 'renewed',
  ttlMs: Math.max(ttlMs, Math.floor(endOf(term) - sentMs)),
})

const isShared = (term: Term | undefined): term is SharedTerm => term?.shared !== undefined

export async function renewOne(shared: Shared, lease: RenewRequest, limits: Limits): Promise<RenewOutcome> {
  const [outcome] = await renew(shared, [lease], limits)
  if (outcome?.is === 'unknown') throw outcome.cause
  return outcome as RenewOutcome
}

/** The etcd lease on which this claim's key is. */
function on(kv: KeyValue | undefined, claim: string): string | undefined {
  const held = heldBy(kv)
  return held?.claim === claim && !held.revoked ? held.kv.lease : undefined
}

/** Who holds the keys, in order. */
async function standing(shared: Shared, open: readonly Open[], limits: Limits): Promise<(KeyValue | undefined)[]> {
  const keys = open.map(({ lease }) => lease.key)
  const parts: (readonly string[])[] = []
  for (let first = 0; first < keys.length; first += READ_AT_ONCE) parts.push(keys.slice(first, first + READ_AT_ONCE))
  const found: (KeyValue | undefined)[] = []
  for (const part of parts) {
    const success = part.map((key) => get({ key: namesOf(shared.prefix, key).held }))
    const { responses = [] } = await run(shared.gateway, 'a renewal', { success }, limits)
    for (const i of part.keys()) found.push(responses[i]?.response_range?.kvs?.[0])
  }
  return found
}

async function lost(shared: Shared, { key, claim }: RenewRequest, limits: Limits): Promise<RenewOutcome> {
  const at = await read(shared.gateway, namesOf(shared.prefix, key), claim, limits, 1)
  return { is: 'lost', reason: whyLost(at, claim) }
}
