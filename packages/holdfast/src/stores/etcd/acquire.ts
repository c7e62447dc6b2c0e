// Asking for a key. Where it is free and nobody waits, one transaction: its conditions are that nobody holds the key or stands in
// line and that this claim has not ended; what it writes is the key on an etcd lease that is at hand, and the record. Its
// revision is the token (G2). What was refused before reads why in the same transaction; else that is one request more, so that a
// grant carries nothing that it does not need.
import { StoreError } from '../../lease/errors.js'
import type { AcquireRequest, Granted, Held } from '../../store/contract.js'
import { endIfHeld } from './ends.js'
import { inDoubt, isLeaseGone } from './failure.js'
import type { Limits } from './gateway.js'
import { asHeld, gaveBack, look, read, type Seen, seen } from './key.js'
import { type Names, namesOf } from './names.js'
import { joinQueue, reserve } from './queue.js'
import { renewOne } from './renew.js'
import { leave, retire } from './sharing.js'
import type { Term } from './terms.js'
import { forgetClaim, leaveInDoubt, retentionOf, type Shared, termFor } from './verbs.js'
import {
  type Compare,
  del,
  hasValue,
  isAbsent,
  isCreatedAt,
  isNoneBefore,
  nested,
  type Op,
  put,
  type TxnAnswer,
  tokenOf,
} from './wire.js'

/** Against others who change the key at the same moment. */
const TRIES = 20

export async function acquire(shared: Shared, request: AcquireRequest, limits: Limits): Promise<Granted | Held> {
  const asking = new Asking(shared, request, limits)
  try {
    return await asking.ask()
  } catch (error) {
    asking.done()
    throw asking.hasWritten ? inDoubt(error) : error
  }
}

class Asking {
  /** Whether anything was written for this request, so that a later failure cannot say that nothing was. */
  hasWritten = false
  readonly #shared: Shared
  readonly #request: AcquireRequest
  readonly #limits: Limits
  readonly #names: Names
  #replaced: { replaced?: boolean } = {}
  #term: Term | undefined

  constructor(shared: Shared, request: AcquireRequest, limits: Limits) {
    this.#shared = shared
    this.#request = request
    this.#limits = limits
    this.#names = namesOf(shared.prefix, request.key)
  }

  async ask(): Promise<Granted | Held> {
    const { claim, replaces } = this.#request
    let at: Seen
    if (replaces !== undefined) {
      const { terms } = this.#shared
      const retained = await terms.retain(retentionOf(this.#shared, this.#request.ttlMs), this.#limits)
      const answer = await this.#send(this.#handover(replaces, retained.id))
      if (answer.succeeded === true) {
        this.#replaced = { replaced: true }
        forgetClaim(this.#shared, this.#request.key, replaces)
        return this.#granted(answer)
      }
      at = await this.#why(answer)
      const verdict = await this.#afterHandover(at, replaces)
      if (verdict !== undefined) return verdict
    }
    let place = this.#shared.places.get(this.#request.key, claim)
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      const answer = await this.#send(place === undefined ? this.#first() : this.#inTurn(place))
      const inner = place === undefined && answer.succeeded === true ? answer.responses?.[0]?.response_txn : undefined
      if (place === undefined ? inner !== undefined && inner.succeeded !== true : answer.succeeded === true) {
        return this.#granted(answer)
      }
      at = await this.#why(inner ?? answer)
      this.#shared.refused.set(this.#request.key, '', true)
      const verdict = await this.#verdict(at)
      if (verdict !== undefined) return verdict
      place = this.#shared.places.get(this.#request.key, claim)
    }
    throw new StoreError(`others changed "${this.#request.key}" ${TRIES} times at the same moment: try again later`, {
      outcome: 'none',
    })
  }

  /** Why a transaction did not go through: as it has read itself, or as things are now. */
  async #why({ responses = [], header }: TxnAnswer): Promise<Seen> {
    const { claim } = this.#request
    if (responses.length > 0) return seen(responses, header?.revision ?? '0', claim)
    return await read(this.#shared.gateway, this.#names, claim, this.#limits, 1)
  }

  /** Sends a transaction that puts the key on a lease; on another one, when that has run out. */
  async #send(txnOf: (lease: string) => { compare: Compare[]; success: Op[]; failure: Op[] }): Promise<TxnAnswer> {
    const { key, replaces } = this.#request
    for (let attempt = 1; ; attempt++) {
      const term = this.#term ?? (await termFor(this.#shared, this.#request, this.#limits))
      this.#term = undefined // until it is known what became of it
      try {
        const answer = await this.#shared.together.ask('an acquire', this.#names.held, txnOf(term.id), this.#limits)
        this.#term = term
        return answer
      } catch (error) {
        if (error instanceof StoreError && error.outcome === 'none' && !isLeaseGone(error)) this.#term = term
        else retire(term)
        if (replaces !== undefined) leaveInDoubt(this.#shared, key, replaces)
        if (!isLeaseGone(error)) throw error
        this.#shared.terms.forgetRetained()
        if (attempt === 3) throw error
      }
    }
  }

  #writes(lease: string): Op[] {
    const { claim, holder, ttlMs, meta } = this.#request
    const atMs = this.#shared.clock.wallMs()
    const value = { claim, holder, ttlMs, atMs, ...(meta === undefined || meta === null ? {} : { meta }) }
    return [put(this.#names.held, asHeld(claim), lease), put(this.#names.record, JSON.stringify(value))]
  }

  /** Nobody in line. etcd compares no value that is not there: so that the claim was the last to give the key back is the odd case. */
  readonly #first = () => (lease: string) => {
    const { last, wanted, ended } = this.#names
    const { key, claim } = this.#request
    const compare = [isAbsent(wanted), isAbsent({ key: ended(claim) })]
    const notLast = { compare: [hasValue(last, claim)], failure: this.#writes(lease) }
    const failure = this.#shared.refused.get(key, '') === true ? look(this.#names, claim, 1) : []
    return { compare, success: [nested(notLast)], failure }
  }

  /** First in line: nobody came before this place. */
  readonly #inTurn = (place: string) => (lease: string) => {
    const { held, queue, waiting, ended } = this.#names
    const { claim } = this.#request
    const compare = [
      isAbsent({ key: held }),
      isAbsent({ key: ended(claim) }),
      isCreatedAt(waiting(claim), place),
      isNoneBefore(queue, place),
    ]
    const success = [...this.#writes(lease), del({ key: waiting(claim) })]
    return { compare, success, failure: look(this.#names, claim, 1) }
  }

  /** From one claim to the next without a gap, where nobody is in line. */
  readonly #handover = (replaces: string, retained: string) => (lease: string) => {
    const { held, last, queue, ended } = this.#names
    const { claim } = this.#request
    const compare = [hasValue(held, asHeld(replaces)), isAbsent(queue), isAbsent({ key: ended(claim) })]
    const success = [...this.#writes(lease), put(last, replaces, retained)]
    return { compare, success, failure: [] }
  }

  /** The handover did not go through as it is: the old claim ends anyway, and the new one asks like any other. */
  async #afterHandover(at: Seen, replaces: string): Promise<Held | Granted | undefined> {
    const { claim } = this.#request
    if (at.ended !== '' || at.last === claim) return await this.#verdict(at)
    if (at.held?.claim === claim) {
      this.#replaced = { replaced: at.last === replaces }
      return await this.#verdict(at)
    }
    const retentionMs = retentionOf(this.#shared, this.#request.ttlMs)
    const { key } = this.#request
    const ending = endIfHeld(this.#shared, this.#names, replaces, retentionMs, this.#limits, true)
    const other = await ending.catch((error) => {
      leaveInDoubt(this.#shared, key, replaces)
      throw error
    })
    if (other === undefined) this.hasWritten = true
    forgetClaim(this.#shared, key, replaces)
    this.#replaced = { replaced: other === undefined || gaveBack(other, replaces) }
    return undefined
  }

  #granted(answer: TxnAnswer): Granted {
    const { key, claim, ttlMs } = this.#request
    const token = tokenOf(answer.header?.revision)
    const term = this.#term
    if (term !== undefined) this.#shared.held.set(key, claim, { term, ttlMs })
    this.#shared.places.delete(key, claim)
    this.#shared.refused.delete(key, '')
    const termMs = term === undefined ? ttlMs : this.#shared.terms.remainingMs(term)
    return { is: 'granted', token, ttlMs: Math.max(ttlMs, termMs), ...this.#replaced }
  }

  /** What a refusal comes to; undefined: ask again. */
  async #verdict(at: Seen): Promise<Granted | Held | undefined> {
    const { key, claim, queue } = this.#request
    if (at.ended !== '' || at.last === claim) return await this.#refused(at, 'ended')
    if (at.held?.claim === claim) {
      if (at.held.revoked) return await this.#refused(at, 'revoked')
      this.done()
      const outcome = await renewOne(this.#shared, this.#request, this.#limits)
      if (outcome.is !== 'renewed') return undefined
      return { is: 'granted', token: at.grant?.token ?? 0, ttlMs: outcome.ttlMs, ...this.#replaced }
    }
    const head = at.queue[0]
    const place = at.own?.kv.create_revision
    if (place === undefined) this.#shared.places.delete(key, claim)
    else this.#shared.places.set(key, claim, place)
    if (at.held === undefined && head === undefined) return undefined
    if (at.held === undefined && head?.claim === claim) return undefined
    if (queue !== undefined) {
      const joined = await joinQueue(this.#shared, this.#names, this.#request, queue.pollMs, at.own, this.#limits)
      this.hasWritten = true
      if (joined === 'again') return undefined
    }
    if (at.held !== undefined) return await this.#refused(at, 'held')
    const reservedMs = await reserve(this.#shared, this.#names, head, this.#limits)
    if (reservedMs === undefined) return undefined
    this.done()
    return {
      is: 'held',
      because: 'reserved',
      holder: head?.value.holder ?? '',
      token: at.grant?.token ?? 0,
      remainingMs: reservedMs,
      ...this.#replaced,
    }
  }

  async #refused(at: Seen, because: Held['because']): Promise<Held> {
    this.done()
    const lease = at.held?.kv.lease
    return {
      is: 'held',
      because,
      holder: at.held === undefined ? '' : (at.grant?.value.holder ?? ''),
      token: at.grant?.token ?? 0,
      remainingMs: lease === undefined ? 0 : await this.#shared.terms.left(lease, this.#limits),
      ...this.#replaced,
    }
  }

  /** The etcd lease at hand was not used. */
  done(): void {
    const { key, claim, ttlMs } = this.#request
    if (this.#term !== undefined) {
      leave(this.#term, key, claim)
      this.#shared.terms.giveBack(this.#term, ttlMs)
    }
    this.#term = undefined
  }
}
