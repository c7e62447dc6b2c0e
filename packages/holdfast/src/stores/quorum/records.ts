// What a quorum knows of a key, for people and tools: held, when a majority of nodes says so of one claim; otherwise free.
import { byText } from '../../lease/keys.js'
import type { CallOptions, LeaseRecord, ListOptions } from '../../store/contract.js'
import type { Node } from './node.js'
import { answersOf, checkCall, type errorsOf, limitOf, noMajority, type Quorum, round } from './quorum.js'
import { most } from './vote.js'

type Known = LeaseRecord | null

/** The claim that most of these nodes say holds, and how many they are. */
export function heldBy(records: readonly Known[]): { claim: string | undefined; most: number } {
  const claims = records.flatMap((record) => (record?.state === 'held' ? [record.claim] : []))
  const claim = most(claims)
  return { claim, most: claims.filter((other) => other === claim).length }
}

/** One record out of many. `needed`: how many nodes must agree for the key to be held. */
export function merge(key: string, records: readonly Known[], needed: number): LeaseRecord | null {
  const known = records.filter((record) => record !== null)
  const { claim, most: holders } = heldBy(records)
  const newest = [...known].sort((a, b) => b.token - a.token)
  const changes = Math.max(0, ...known.map((record) => record.changes))
  if (claim === undefined || holders < needed) {
    const token = most(newest.map((record) => record.token))
    const last = newest.find((record) => record.token === token)
    if (last === undefined) return null
    return { ...last, key, state: 'free', remainingMs: 0, heldMs: 0, revoked: false, changes, waiters: [] }
  }
  const mine = newest.filter((record) => record.state === 'held' && record.claim === claim)
  const token = most(mine.map((record) => record.token))
  const best = mine.find((record) => record.token === token) as LeaseRecord
  // Until when at least so many nodes keep it.
  const remaining = mine.map(({ remainingMs }) => remainingMs).sort((a, b) => b - a)
  return {
    ...best,
    key,
    remainingMs: remaining[needed - 1] ?? 0,
    heldMs: Math.max(...mine.map(({ heldMs }) => heldMs)),
    changes,
    // Renewals are refused when too few nodes are left that would renew.
    revoked: mine.filter(({ revoked }) => !revoked).length < needed,
    waiters: [],
  }
}

export async function inspect(quorum: Quorum, key: string, call?: CallOptions): Promise<LeaseRecord | null> {
  checkCall(quorum, call, 'an inspection')
  const { nodes, majority } = quorum
  const { record } = await round<Known, { record: Known }>(quorum, call, {
    what: 'an inspection',
    send: (store, options) => store.inspect(key, options),
    judge(replies) {
      const answers = answersOf(replies)
      const { most: holders } = heldBy(answers)
      if (holders >= majority) return { record: merge(key, answers, majority) }
      return holders + nodes.length - answers.length < majority ? { record: merge(key, answers, majority) } : undefined
    },
  })
  return record
}

/** One node's records in order, as long as it answers. */
interface Stream {
  readonly node: Node
  readonly records: AsyncIterator<LeaseRecord>
  head: LeaseRecord | undefined
  state: 'reading' | 'ended' | 'failed'
}

/**
 * The records of all nodes, merged as they come: each gives them in the order of the keys. A lease that may be held, for all that
 * the nodes that answer can tell, is listed. Rejects when fewer than a majority answer.
 */
export async function* list(quorum: Quorum, options: ListOptions): AsyncGenerator<LeaseRecord> {
  checkCall(quorum, undefined, 'a list')
  const errors: ReturnType<typeof errorsOf>[number][] = []
  const { nodes, majority } = quorum
  const streams: Stream[] = nodes.map((node) => ({
    node,
    records: node.store.list(options)[Symbol.asyncIterator](),
    head: undefined,
    state: 'reading',
  }))
  const read = (stream: Stream) =>
    new Promise<void>((resolve) => {
      stream.head = undefined
      stream.node.ask('a list', limitOf(quorum, undefined), () => stream.records.next(), {
        reply(reply) {
          if (reply.is === 'failed') {
            errors.push(reply.error)
            stream.state = 'failed'
          } else if (reply.answer.done === true) stream.state = 'ended'
          else stream.head = reply.answer.value
          resolve()
        },
      })
    })
  try {
    await Promise.all(streams.map(read))
    for (;;) {
      if (errors.length > nodes.length - majority) throw noMajority(quorum, 'a list', errors)
      const first = streams.flatMap(({ head }) => (head === undefined ? [] : [head.key])).sort(byText)[0]
      if (first === undefined) return
      const here = streams.filter(({ head }) => head?.key === first)
      // A node that fails may have had it.
      const needed = Math.max(1, majority - errors.length)
      const record = merge(
        first,
        here.map(({ head }) => head ?? null),
        needed,
      )
      if (record !== null && (options.free === true || record.state === 'held')) yield record
      await Promise.all(here.map(read))
    }
  } finally {
    for (const { records, state } of streams) if (state === 'reading') records.return?.()?.catch(() => {})
  }
}
