// How a claim ends: its key goes, and what is remembered of it comes, in one transaction. Whether the holder was revoked is told
// by the value, so both are asked for; a release asks for the usual one alone first.
import { isLeaseGone } from './failure.js'
import type { Limits } from './gateway.js'
import { asHeld, asRevoked, look, type Seen, seen } from './key.js'
import type { Names } from './names.js'
import type { Shared } from './verbs.js'
import { del, hasValue, nested, type Op, put } from './wire.js'

/** Somebody may have revoked the etcd lease on which this process remembers what ended: then on another. */
async function retained<Answer>(
  { terms }: Shared,
  retentionMs: number,
  limits: Limits,
  send: (lease: string) => Promise<Answer>,
): Promise<Answer> {
  try {
    return await send((await terms.retain(retentionMs, limits)).id)
  } catch (error) {
    if (!isLeaseGone(error)) throw error
    terms.forgetRetained()
    return await send((await terms.retain(retentionMs, limits)).id)
  }
}

/** Ends the claim if it holds. Gives undefined when it did, else what stands there. */
export async function endIfHeld(
  shared: Shared,
  names: Names,
  claim: string,
  retentionMs: number,
  limits: Limits,
  leaveQueue: boolean,
): Promise<Seen | undefined> {
  const leave: Op[] = leaveQueue ? [del({ key: names.waiting(claim) })] : []
  const send = (otherwise: (success: Op[]) => Op[]) =>
    retained(shared, retentionMs, limits, (lease) => {
      const success = [del({ key: names.held }), put(names.last, claim, lease), ...leave]
      const txn = { compare: [hasValue(names.held, asHeld(claim))], success, failure: otherwise(success) }
      return shared.together.ask('a release', names.held, txn, limits)
    })
  if ((await send(() => [])).succeeded === true) return undefined
  const failure = [...leave, ...look(names, claim, 1)]
  const answer = await send((success) => [
    nested({ compare: [hasValue(names.held, asRevoked(claim))], success, failure }),
  ])
  if (answer.succeeded === true) return undefined
  const inner = answer.responses?.[0]?.response_txn
  if (inner?.succeeded === true) return undefined
  return seen((inner?.responses ?? []).slice(leave.length), answer.header?.revision ?? '0', claim)
}

/** Ends the claim, held or not, and refuses it from now on (G6). */
export async function withdraw(
  shared: Shared,
  names: Names,
  claim: string,
  retentionMs: number,
  limits: Limits,
): Promise<void> {
  await retained(shared, retentionMs, limits, (lease) => {
    const forget = [put(names.ended(claim), 'withdrawn', lease), del({ key: names.waiting(claim) })]
    const success = [del({ key: names.held }), put(names.last, claim, lease), ...forget]
    const revoked = { compare: [hasValue(names.held, asRevoked(claim))], success, failure: forget }
    const txn = { compare: [hasValue(names.held, asHeld(claim))], success, failure: [nested(revoked)] }
    return shared.together.ask('a withdrawal', names.held, txn, limits)
  })
}
