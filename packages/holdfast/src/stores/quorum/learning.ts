// A lease that this process did not acquire but took over, with `adopt`, is healed as well. What a node must be given back is
// read from the others: of a majority that holds the claim the greatest token. One of them is in the majority that the grant
// counted, so that the token is no smaller than the grant's.
import type { LeaseRecord, RenewRequest } from '../../store/contract.js'
import { answersOf, type Quorum, round } from './quorum.js'
import { idOf } from './terms.js'

/** As with healing, never urgent. */
const AT_ONCE = 16

export class Learning {
  readonly #queue: (() => Promise<void>)[] = []
  #running = 0

  add(job: () => Promise<void>): void {
    this.#queue.push(job)
    this.#next()
  }

  #next(): void {
    while (this.#running < AT_ONCE) {
      const job = this.#queue.shift()
      if (job === undefined) return
      this.#running++
      job().finally(() => {
        this.#running--
        this.#next()
      })
    }
  }
}

/** Learns the term of a claim that a majority has just renewed, and then calls `learned`, unless it ended meanwhile. */
export function learn(quorum: Quorum, { key, claim }: RenewRequest, untilMs: number, learned: () => void): void {
  const { terms, clock, learning } = quorum
  const id = idOf(key, claim)
  const nowMs = clock.monoMs()
  const term = terms.adopt(id, untilMs - nowMs, nowMs)
  if (term === undefined) return
  learning.add(async () => {
    const record = await held(quorum, key, claim).catch(() => undefined) // the next renewal tries again
    if (terms.get(id) !== term) return
    if (record === undefined) {
      terms.end(id)
      return
    }
    term.holder = record.holder
    term.meta = record.meta ?? undefined
    term.token = record.token
    learned()
  })
}

/** What a majority keeps of the claim, with the greatest of their tokens. Undefined when none holds it, or it is revoked. */
async function held(quorum: Quorum, key: string, claim: string): Promise<LeaseRecord | undefined> {
  const { nodes, majority } = quorum
  const { record } = await round<LeaseRecord | null, { record: LeaseRecord | undefined }>(quorum, undefined, {
    what: 'an inspection',
    send: (store, options) => store.inspect(key, options),
    judge(replies) {
      const answers = answersOf(replies)
      const mine = answers.filter((one) => one !== null && one.state === 'held' && one.claim === claim) as LeaseRecord[]
      if (mine.some(({ revoked }) => revoked)) return { record: undefined }
      const [first] = mine
      if (first !== undefined && mine.length >= majority)
        return { record: { ...first, token: Math.max(...mine.map(({ token }) => token)) } }
      return mine.length + nodes.length - answers.length < majority ? { record: undefined } : undefined
    },
  })
  return record
}
