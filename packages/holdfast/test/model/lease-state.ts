// What a state of the lease model consists of, and how one is copied and told from another.
import { type KeyState, textOf } from './key-store.js'

export interface Message {
  readonly kind: 'acquire' | 'renew' | 'release' | 'withdraw' | 'granted' | 'refused' | 'renewed' | 'lost' | 'released'
  readonly to: number
  readonly claim: string
  /** Which attempt or renewal of the claim this is about. */
  readonly n: number
  readonly replaces: string
  readonly token: number
  readonly text: string
}
export const isRequest = ({ kind }: Pick<Message, 'kind'>) =>
  kind === 'acquire' || kind === 'renew' || kind === 'release' || kind === 'withdraw'

/** A lost lease: its work may be winding down, its claim may have to be withdrawn. */
export interface Lost {
  claim: string
  term: number
  acquires: number
  renewals: number
  withdraw: boolean
}

export interface Client {
  is: 'idle' | 'asking' | 'held' | 'releasing'
  claim: string
  /** Which attempt this is; an answer to an earlier one comes after its time-out. What is left of its deadline. */
  attempt: number
  useful: number
  /** What is left of the deadline of each renewal. */
  renews: number[]
  /** Requests that may still be on their way. */
  acquires: number
  renewals: number
  known: boolean
  replaces: string
  deadline: number
  term: number
  token: number
  lost: Lost[]
  /** The token with which it is about to write; negative once it has read the fence. */
  checked: number
  claims: number
  /** Ticks until its clock may lose one again. */
  steady: number
  text: string
  may: { ask: number; repeat: number; renew: number; handOver: number; write: number }
}

export interface State {
  store: KeyState
  net: Message[]
  clients: Client[]
  /** The biggest token granted, and claims whose end the store has processed. */
  biggest: number
  ended: string[]
  /** The claim that was lost last with every request answered: its term may run out by itself. */
  excused: string
  fence: { token: number; claim: string } | undefined
  written: number
  duplicates: number
  revocations: number
  prunings: number
}

export const nothing = () => ({
  is: 'idle' as Client['is'],
  claim: '',
  attempt: 0,
  useful: 0,
  renews: [] as number[],
  acquires: 0,
  renewals: 0,
  known: false,
  replaces: '',
  deadline: 0,
  term: 0,
  token: 0,
})

export const nameOf = (i: number) => 'ABC'[i] ?? '?'

export function send(next: State, { kind, to, claim, n = 0, replaces = '', token = 0 }: Sent): void {
  const text = `${kind} ${claim}${n > 1 ? ` (${n})` : ''}${replaces && ` for ${replaces}`}${token > 0 ? ` with ${token}` : ''}`
  next.net.push({ kind, to, claim, n, replaces, token, text })
}
type Sent = Pick<Message, 'kind' | 'to' | 'claim'> & Partial<Message>

/** The store has processed the end of a claim. */
export function end(next: State, claim: string): void {
  if (!next.ended.includes(claim)) next.ended = [...next.ended, claim].sort()
}

/** A copy, whose clients are still the old ones. */
export const copy = (state: State): State => ({ ...state, net: [...state.net], clients: [...state.clients] })

/** A client that may be changed. */
export function own(next: State, i: number): Client {
  const client = next.clients[i]
  if (client === undefined) throw new Error('no such client')
  const mine = {
    ...client,
    text: '',
    renews: [...client.renews],
    lost: client.lost.map((lost) => ({ ...lost })),
    may: { ...client.may },
  }
  next.clients[i] = mine
  return mine
}

/** Clients that have not changed share their text. */
function textOfClient(client: Client): string {
  if (client.text !== '') return client.text
  const { is, claim, renews, acquires, renewals, known, replaces, lost, may } = client
  let text = `|${is}${claim},${client.attempt},${client.useful},${renews.join('.')},${acquires},${renewals},${known},${replaces},`
  text += `${client.deadline},${client.term},${client.token},${client.checked},${client.claims},${client.steady},`
  text += `${may.ask}${may.repeat}${may.renew}${may.handOver}${may.write}`
  for (const one of lost) text += `,${one.claim},${one.term},${one.acquires},${one.renewals},${one.withdraw}`
  client.text = text
  return text
}

export function keyOf(state: State): string {
  let text = textOf(state.store)
  for (const message of state.net.map((one) => one.text).sort()) text += `;${message}`
  for (const client of state.clients) text += textOfClient(client)
  const { biggest, ended, excused, fence, written, duplicates, revocations, prunings } = state
  return `${text}|${biggest},${ended.join('.')},${excused},${fence?.token},${written},${duplicates},${revocations},${prunings}`
}
