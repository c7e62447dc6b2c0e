// Acquire, renewal, handover, release, withdrawal and revocation of one key, as a model: the store's steps are the real ones,
// the clients do what src/lease does, and the network does as it likes. Requests and replies are late without bound, lost (which
// is to be late for ever), reordered and, where a scope says so, repeated. A frozen process is one to which nothing happens for a
// while. Each guard of the protocol can be switched off; then a rule must break, or the guard (or this model) is good for nothing.
import { admits } from '../../src/fence/fence.js'
import * as protocol from '../../src/store/protocol.js'
import type { Model } from './explorer.js'
import type { Guard, Rule, Scope } from './guards.js'
import { type KeyState, left, NOW, plain, rules, tick, unknown } from './key-store.js'
import {
  type Client,
  copy,
  end,
  isRequest,
  keyOf,
  type Message,
  nameOf,
  nothing,
  own,
  type State,
  send,
} from './lease-state.js'

export function leaseModel(scope: Scope, off: readonly Guard[] = []): Model<State> {
  const on = (guard: Guard) => off.length === 0 || !off.includes(guard)
  const margin = on('margin') ? scope.margin : 0
  const useful = scope.ttl - margin
  /** Whether tokens are compared in this scope. Where they are not, grants that differ only in them are one. */
  const counts = (scope.prunings ?? 0) > 0 || scope.clients.some(({ writes = 0 }) => writes > 0)

  const start: State = {
    store: unknown,
    net: [],
    clients: scope.clients.map(({ asks, repeats = 0, renewals = 0, handovers = 0, writes = 0 }) => ({
      ...nothing(),
      text: '',
      lost: [],
      checked: 0,
      claims: 0,
      steady: 0,
      may: { ask: asks, repeat: repeats, renew: renewals, handOver: handovers, write: writes },
    })),
    biggest: 0,
    ended: [],
    excused: '',
    fence: undefined,
    written: 0,
    duplicates: scope.duplicates ?? 0,
    revocations: scope.revocations ?? 0,
    prunings: scope.prunings ?? 0,
  }

  return {
    start,
    key: keyOf,
    check,
    next(state, to, broken) {
      const step = (what: string, change: (next: State) => void) => {
        const next = copy(state)
        change(next)
        forget(next)
        to(what, next)
      }
      for (const [i, client] of state.clients.entries()) clientSteps(state, client, i, step, broken)
      state.net.forEach((message, place) => {
        if (state.net.findIndex(({ text }) => text === message.text) < place) return
        const what = message.text
        step(`${what} arrives`, (next) => {
          next.net.splice(place, 1)
          deliver(next, message, broken)
        })
        if (state.duplicates > 0 && (message.kind === 'acquire' || message.kind === 'renew'))
          step(`${what} arrives, and will again`, (next) => {
            next.duplicates--
            deliver(next, message, broken)
          })
      })
      operatorSteps(state, step)
      for (const slow of subsets(state.clients)) {
        step(slow.length === 0 ? 'a tick' : `a tick, missed by ${slow.map(nameOf).join(' and ')}`, (next) =>
          pass(next, slow),
        )
      }
    },
  }

  function clientSteps(
    state: State,
    client: Client,
    i: number,
    step: (what: string, change: (next: State) => void) => void,
    broken: (rule: Rule, why: string) => void,
  ): void {
    const act = (what: string, change: (self: Client, next: State) => void) =>
      step(`${nameOf(i)} ${what}`, (next) => change(own(next, i), next))
    const { may } = client
    if (client.is === 'idle' && may.ask > 0)
      act('asks', (self, next) => {
        self.may.ask--
        ask(next, self, i, '')
      })
    if (client.is === 'asking') {
      if (may.repeat > 0)
        act(`repeats the acquire of ${client.claim}`, (self, next) => {
          self.may.repeat--
          attempt(next, self, i)
        })
      act(`gives up ${client.claim}`, (self, next) => giveUp(next, self, i))
    }
    if (client.is === 'held' && client.deadline > 0) {
      act(`releases ${client.claim}`, (self, next) => {
        self.is = 'releasing'
        self.known = self.acquires > 0
        send(next, { kind: 'release', to: i, claim: self.claim, n: self.acquires > 0 ? 2 : 1 })
      })
      if (may.renew > 0)
        act(`renews ${client.claim}`, (self, next) => {
          self.may.renew--
          self.renewals++
          self.renews.push(useful)
          send(next, { kind: 'renew', to: i, claim: self.claim, n: self.renews.length })
        })
      if (may.handOver > 0 && (client.acquires === 0 || !on('handoverWaits')))
        act(`hands ${client.claim} over`, (self, next) => {
          self.may.handOver--
          ask(next, self, i, self.claim)
        })
      if (may.write > 0 && client.checked === 0)
        act(`sees that it holds ${client.claim}`, (self) => {
          self.may.write--
          self.checked = self.token
        })
    }
    if (client.is === 'held' && client.deadline === 0)
      act(`sees that ${client.claim} is over`, (self, next) => lose(next, self, i, on('withdrawOverdue')))
    if (client.is === 'releasing')
      act(`waits no longer for the release of ${client.claim}`, (self, next) => {
        withdraw(next, i, self.claim)
        Object.assign(self, nothing())
      })
    client.lost.forEach((lost, place) => {
      if (lost.term === 0) {
        act(`comes to the end of the term of ${lost.claim}`, (self, next) => {
          if (lost.withdraw) withdraw(next, i, lost.claim)
          self.lost.splice(place, 1)
        })
      } else
        act(`has wound down the work under ${lost.claim}`, (self, next) => {
          if (lost.withdraw || on('withdrawOverdue')) withdraw(next, i, lost.claim)
          self.lost.splice(place, 1)
        })
    })
    writeSteps(state, client, act, broken)
  }

  function writeSteps(
    state: State,
    { checked }: Client,
    act: (what: string, change: (self: Client, next: State) => void) => void,
    broken: (rule: Rule, why: string) => void,
  ): void {
    if (checked === 0) return
    const token = Math.abs(checked)
    const request = { token, claim: `token ${token}` }
    const admitted = !on('fenced') || admits(state.fence, request)
    if (checked > 0 && !on('fenceIsAtomic')) {
      act(`reads the fence with token ${token}`, (self) => {
        self.checked = admitted ? -token : 0
      })
      return
    }
    const writes = checked < 0 || admitted
    if (writes && token < state.written)
      broken('fence', `a write with token ${token} came after one with ${state.written}`)
    act(`writes with token ${token}`, (self, next) => {
      self.checked = 0
      if (!writes) return
      next.written = Math.max(next.written, token)
      if (state.fence === undefined || token > state.fence.token) next.fence = request
    })
  }

  function operatorSteps(state: State, step: (what: string, change: (next: State) => void) => void): void {
    if (state.revocations > 0 && left(state.store) > 0)
      step(`an operator revokes ${state.store.claim}`, (next) => {
        next.revocations--
        const { claim } = next.store
        next.store = plain(protocol.revoke(next.store, !on('revokeLetsRun'), NOW, rules).state)
        if (!on('revokeLetsRun')) end(next, claim)
      })
    const underWay = state.net.some(isRequest)
    if (state.prunings > 0 && state.store.token > 0 && left(state.store) === 0 && !(on('pruningWaits') && underWay))
      step('the store forgets the record', (next) => {
        next.prunings--
        next.store = protocol.unknownKey(on('tokensOutlivePruning') ? next.store.token : 0)
      })
  }

  // What a client does (src/lease/waiting.ts, lease.ts, renewal.ts, local-queue.ts).

  function ask(next: State, self: Client, i: number, replaces: string): void {
    Object.assign(self, nothing())
    self.is = 'asking'
    self.claim = `${nameOf(i).toLowerCase()}${++self.claims}`
    self.replaces = replaces
    attempt(next, self, i)
  }

  function attempt(next: State, self: Client, i: number): void {
    self.attempt++
    self.useful = useful
    self.acquires++
    send(next, { kind: 'acquire', to: i, claim: self.claim, n: self.attempt, replaces: self.replaces })
  }

  function giveUp(next: State, self: Client, i: number): void {
    if (on('withdrawGivenUp') && (self.acquires > 0 || self.known)) withdraw(next, i, self.claim)
    if (self.replaces !== '' && on('withdrawPredecessor')) withdraw(next, i, self.replaces)
    Object.assign(self, nothing())
  }

  /** The lease is lost; what is open decides whether its claim must be withdrawn. */
  function lose(next: State, self: Client, i: number, guarded: boolean): void {
    const { claim, term, acquires, renewals } = self
    const open = acquires > 0 || renewals > 0
    if (!open && next.store.claim === claim) next.excused = claim
    if (open && guarded && !on('windDown')) withdraw(next, i, claim)
    self.lost.push({ claim, term, acquires, renewals, withdraw: open && guarded })
    Object.assign(self, nothing())
  }

  function withdraw(next: State, i: number, claim: string): void {
    send(next, { kind: 'withdraw', to: i, claim })
  }

  // The network and the store.

  function deliver(next: State, message: Message, broken: (rule: Rule, why: string) => void): void {
    const { kind, to, claim, n, replaces } = message
    const reply = (answer: Message['kind'], token = 0) => send(next, { kind: answer, to, claim, n, token })
    const before = next.store
    switch (kind) {
      case 'acquire': {
        const answer = storeAcquires(next, claim, replaces)
        if (answer.is === 'granted') judgeGrant(next, before, claim, answer.token, broken)
        reply(answer.is === 'granted' ? 'granted' : 'refused', answer.is === 'granted' ? answer.token : 0)
        return
      }
      case 'renew': {
        const revives = !on('expiryIsFinal') && before.claim === claim && !before.revoked && left(before) === 0
        const { state, answer } = protocol.renew(
          revives ? { ...before, expiresMs: NOW + 1 } : before,
          claim,
          scope.ttl,
          NOW,
        )
        setStore(next, state)
        if (answer.is === 'renewed' && left(before) === 0) broken('revived', `${claim} was renewed after its expiry`)
        reply(answer.is === 'renewed' ? 'renewed' : 'lost')
        return
      }
      case 'release': {
        const { state, answer } = protocol.release(before, claim, NOW, rules)
        setStore(next, state)
        if (answer.is === 'released' && n === 1) end(next, claim) // else its withdrawal is to come
        reply('released')
        return
      }
      case 'withdraw':
        setStore(next, protocol.withdraw(before, claim, NOW, rules).state)
        end(next, claim)
        return
      default:
        hear(next, own(next, to), message)
    }
  }

  function storeAcquires(next: State, claim: string, replaces: string): { is: string; token: number } {
    const before = next.store
    const request = { key: 'k', claim, holder: '', ttlMs: scope.ttl }
    const expired = before.claim === claim && claim !== '' && left(before) === 0
    if (expired && !on('expiredGetsNewToken') && before.lastEnded !== claim) {
      setStore(next, { ...before, expiresMs: NOW + scope.ttl })
      return { is: 'granted', token: before.token }
    }
    const ends = replaces !== ''
    const { state, answer } = protocol.acquire(before, ends ? { ...request, replaces } : request, NOW, rules)
    if (ends && before.claim === replaces) end(next, replaces)
    const repeated = before.claim === claim && left(before) > 0 && state.claim === claim
    setStore(next, repeated && !on('repeatExtends') ? { ...state, expiresMs: before.expiresMs } : state)
    return answer
  }

  function setStore(next: State, state: KeyState): void {
    next.store = plain({
      ...state,
      ended: on('rememberWithdrawn') ? state.ended : [],
      lastEnded: on('rememberReleased') ? state.lastEnded : '',
    })
  }

  function judgeGrant(
    next: State,
    before: KeyState,
    claim: string,
    token: number,
    broken: (rule: Rule, why: string) => void,
  ): void {
    const again = before.claim === claim && left(before) > 0
    if (!again) {
      if (before.claim === claim && token === before.token)
        broken('revived', `${claim} was granted its old token after its expiry`)
      else if (token <= next.biggest) broken('token', `${claim} was granted ${token} after ${next.biggest}`)
      if (next.ended.includes(claim)) broken('ended holds again', `${claim} was granted after its end`)
    }
    next.biggest = Math.max(next.biggest, token)
  }

  /** A reply reaches a client. */
  function hear(next: State, self: Client, { kind, to, claim, n, token }: Message): void {
    const lost = self.lost.find((one) => one.claim === claim)
    if (lost !== undefined) {
      if (kind === 'granted' || kind === 'refused') lost.acquires--
      else lost.renewals--
      if (kind === 'renewed' && on('withdrawOverdue')) lost.withdraw = true
      return
    }
    if (self.claim !== claim) return
    if (kind === 'granted' || kind === 'refused') {
      self.acquires--
      if (self.is === 'asking') hearVerdict(next, self, to, kind === 'granted', n, token)
    } else if (kind === 'released' && self.is === 'releasing') {
      if (self.acquires > 0 || (self.known && on('releaseLooksFirst'))) withdraw(next, to, claim)
      Object.assign(self, nothing())
    } else if (kind === 'lost' && self.is === 'held') {
      self.renewals--
      lose(next, self, to, on('withdrawToldLost'))
    } else if (kind === 'renewed' && self.is === 'held') {
      self.renewals--
      if (self.deadline === 0) {
        lose(next, self, to, on('withdrawOverdue'))
        const now = self.lost.at(-1)
        if (now?.claim === claim && on('withdrawOverdue')) now.withdraw = true
        return
      }
      const sent = on('deadlineFromSend') ? (self.renews[n - 1] ?? 0) : useful
      self.deadline = Math.max(self.deadline, sent)
      self.term = Math.max(self.term, sent + margin)
    }
  }

  function hearVerdict(next: State, self: Client, i: number, granted: boolean, n: number, token: number): void {
    if (n !== self.attempt) {
      if (granted && on('withdrawLateGrant')) self.known = true
      return
    }
    self.replaces = ''
    if (!granted) return
    self.known = true
    const sent = on('deadlineFromSend') ? self.useful : useful
    if (sent === 0) {
      giveUp(next, self, i)
      return
    }
    const { claim, acquires } = self
    Object.assign(self, nothing(), { is: 'held', claim, acquires, deadline: sent, term: sent + margin, token })
  }

  function pass(next: State, slow: readonly number[]): void {
    next.store = tick(next.store)
    next.clients.forEach((_, i) => {
      const client = own(next, i)
      client.steady = Math.max(0, client.steady - 1)
      if (slow.includes(i)) {
        client.steady = scope.ttl
        return
      }
      const down = (ticks: number) => Math.max(0, ticks - 1)
      client.useful = down(client.useful)
      client.renews = client.renews.map(down)
      client.deadline = down(client.deadline)
      client.term = down(client.term)
      for (const lost of client.lost) lost.term = down(lost.term)
    })
  }

  function subsets(clients: readonly Client[]): number[][] {
    let sets: number[][] = [[]]
    if (!scope.drift) return sets
    for (const [i, { steady }] of clients.entries())
      if (steady === 0) sets = sets.concat(sets.map((set) => [...set, i]))
    return sets
  }

  /** Forgets what makes no difference any more, so that histories which differ only in it are one. */
  function forget(next: State): void {
    const { clients, store } = next
    const cares = (client: Client | undefined, claim: string) =>
      client !== undefined && (client.claim === claim || client.lost.some((lost) => lost.claim === claim))
    next.net = next.net.filter((message) => {
      const { kind, claim, to } = message
      if (kind === 'withdraw' || cares(clients[to], claim)) return true
      // A release that was given up has its withdrawal on its way; a claim that is refused for good has nothing to hope for.
      if (kind === 'release' || !isRequest(message)) return false
      return next.prunings > 0 || !store.ended.some((ended) => ended.claim === claim)
    })
    const named = (claim: string) =>
      claim !== '' &&
      (next.net.some((message) => message.claim === claim || message.replaces === claim) ||
        clients.some((client) => client.replaces === claim || cares(client, claim)))
    next.ended = next.ended.filter(named)
    if (next.excused !== store.claim) next.excused = ''
    const keep = left(store) > 0 || named(store.claim)
    next.store = {
      ...store,
      token: counts ? store.token : 0,
      claim: keep ? store.claim : '',
      expiresMs: keep ? store.expiresMs : 0,
      lastEnded: named(store.lastEnded) ? store.lastEnded : '',
      ended: store.ended.length === 0 ? store.ended : store.ended.filter(({ claim }) => named(claim)),
    }
    if (!counts) next.biggest = 0
  }

  function check({ store, net, clients, excused }: State, broken: (rule: Rule, why: string) => void): void {
    const holds = left(store) > 0
    const believers = clients.filter(({ is, deadline }) => is === 'held' && deadline > 0)
    if (believers.length > 1) broken('two believe', believers.map(({ claim }) => claim).join(' and '))
    for (const { claim } of believers)
      if (!holds || store.claim !== claim)
        broken('believed, not held', `${claim} is believed, the store has ${store.claim}`)
    if (!holds) return
    if (!scope.drift)
      for (const lost of clients.flatMap((client) => client.lost))
        if (lost.term > 0 && store.claim !== lost.claim)
          broken('overtaken', `${store.claim} holds while the work under ${lost.claim} winds down in its term`)
    const quiet =
      !net.some(({ kind }) => kind === 'withdraw') &&
      clients.every(({ is, lost }) => is === 'idle' && lost.length === 0)
    if (quiet && excused !== store.claim)
      broken('ghost', `${store.claim} holds; nobody wants it, and nobody will end it`)
  }
}
