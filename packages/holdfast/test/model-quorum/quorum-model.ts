// Acquire, renewal, healing, release and withdrawal at a quorum, as a model: the nodes' steps are those of store/protocol.ts, the
// votes are judged by the lines of stores/quorum/vote.ts, the clients do what stores/quorum does, and the network does as it
// likes. Requests and replies are late without bound and in any order; one that is never delivered is lost. A node may lose its
// data. Nodes are alike: states that differ only in which node is which are one.
//
// Each guard can be switched off; then a rule must break, or the guard (or this model) is good for nothing.
import type { Granted, RenewOutcome } from '../../src/store/contract.js'
import * as protocol from '../../src/store/protocol.js'
import { isFirst, isHeldByAnother, judge, judgeRenewal, majorityOf, type Vote } from '../../src/stores/quorum/vote.js'
import type { Model } from '../model/explorer.js'
import { NOW, plain, rules, textOf, tick, unknown } from '../model/key-store.js'
import type { Answer, Client, Column, Guard, Message, Rule, Scope, State } from './quorum-state.js'

const NOTHING: RenewOutcome | undefined = undefined
/** A release that is sent only when nothing of its claim is on its way to the node any more. */
const HELD_BACK = -1
const PENDING: Vote = { is: 'pending' }
const isRequest = ({ kind }: Message) => kind !== 'answer' && kind !== 'healed' && kind !== 'renewed'

const voteText = (vote: Vote): string =>
  vote.is === 'granted'
    ? `g${vote.granted.token}`
    : vote.is === 'held'
      ? `h${vote.held.because[0]}${vote.held.token}`
      : vote.is

export function quorumModel(scope: Scope, off: readonly Guard[] = []): Model<State> {
  const on = (guard: Guard) => !off.includes(guard)
  const majority = scope.majority ?? majorityOf(scope.nodes)
  const { ttl } = scope

  const message = (part: Omit<Message, 'text'>): Message => {
    const { kind, client, claim, n, floor, answer, outcome } = part
    const said =
      answer === undefined
        ? ''
        : answer.is === 'silent'
          ? 's'
          : `${answer.is[0]}${answer.token}${answer.is === 'held' ? answer.because[0] : ''}`
    const told = outcome === undefined ? '' : outcome.is === 'lost' ? outcome.reason : outcome.is
    return { ...part, text: `${kind[0]}${kind[1]}${client}${claim}${n}.${floor}${said}${told}` }
  }
  const put = (column: Column, ...more: Message[]): Column => ({
    ...column,
    messages: [...column.messages, ...more].sort((a, b) => (a.text < b.text ? -1 : 1)),
  })
  const setVote = (column: Column, client: number, vote: Vote): Column => ({
    ...column,
    votes: column.votes.map((old, c) => (c === client ? vote : old)),
  })
  const setStray = (column: Column, client: number, stray: boolean): Column => ({
    ...column,
    stray: column.stray.map((old, c) => (c === client ? stray : old)),
  })
  const mapColumns = (state: State, fn: (column: Column) => Column): State => ({
    ...state,
    columns: state.columns.map(fn),
  })
  const setClient = (state: State, c: number, part: Partial<Client>): State => ({
    ...state,
    clients: state.clients.map((client, i) => (i === c ? { ...client, ...part } : client)),
  })
  const ids = new Map<string, number>()
  const texts = new WeakMap<object, number>()
  /** One number for each different part of a state: parts are shared between states, so most are known already. */
  const idOf = <Part extends object>(part: Part, textOfPart: (part: Part) => string): number => {
    let id = texts.get(part)
    if (id !== undefined) return id
    const text = textOfPart(part)
    id = ids.get(text) ?? ids.size
    ids.set(text, id)
    texts.set(part, id)
    return id
  }
  const columnId = (column: Column) =>
    idOf(
      column,
      ({ node, silent, messages, votes, renewals, stray }) =>
        `${textOf(node)}|${silent}|${stray.map(Number).join('')}|${messages.map(({ text }) => text).join(',')}|${votes.map(voteText).join(',')}|` +
        renewals.map((vote) => (vote === undefined ? '' : vote.is === 'lost' ? vote.reason : vote.is)).join(','),
    )
  const clientId = (client: Client) => idOf(client, (one) => Object.values(one).join(','))
  const isEnding = (column: Column, claim: string) =>
    column.messages.some((one) => one.kind === 'withdraw' && one.claim === claim)
  const isOpen = (column: Column, claim: string) =>
    column.messages.some(
      ({ kind, claim: of }) =>
        of === claim && (kind === 'acquire' || kind === 'answer' || kind === 'heal' || kind === 'healed'),
    )

  /** Forgets what can have no effect any more, so that states which differ in nothing else are one. */
  function tidy(state: State): State {
    const clients = state.clients.map((client) =>
      client.is === 'refused' && client.left > 0 ? { ...client, left: 0 } : client,
    )
    const isActive = (claim: string) =>
      clients.some((client) => client.claim === claim && client.is !== 'idle' && client.is !== 'lost')
    const columns = state.columns.map((column) => {
      const votes = column.votes.every((vote, c) => clients[c]?.is === 'asking' || vote === PENDING)
        ? column.votes
        : column.votes.map((vote, c) => (clients[c]?.is === 'asking' ? vote : PENDING))
      const { node } = column
      const ended = (claim: string) => node.lastEnded === claim || node.ended.some((one) => one.claim === claim)
      const comes = (claim: string) =>
        column.messages.some((one) => one.claim === claim && (one.kind === 'acquire' || one.kind === 'heal'))
      const isIdle = ({ kind, claim }: Message) => {
        if (state.losses > 0 || isActive(claim) || kind === 'healed') return false
        const keeps = node.claim === claim && protocol.isHeld(node, NOW)
        if (kind === 'answer' || kind === 'renewed') return !keeps
        if (kind !== 'withdraw' && ended(claim)) return true
        if (kind === 'acquire' || kind === 'heal') return false
        return !keeps && !comes(claim)
      }
      const messages = column.messages.some(isIdle) ? column.messages.filter((one) => !isIdle(one)) : column.messages
      const isForgotten = (claim: string) =>
        state.losses === 0 && !isActive(claim) && !messages.some((one) => one.claim === claim)
      const forgets =
        (node.lastEnded !== '' && isForgotten(node.lastEnded)) || node.ended.some(({ claim }) => isForgotten(claim))
      const strays = column.stray.some((stray, c) => stray && clients[c]?.is !== 'asking')
      if (votes === column.votes && messages === column.messages && !forgets && !strays) return column
      const stray = column.stray.map((one, c) => one && clients[c]?.is === 'asking')
      const rest = forgets
        ? {
            ...node,
            lastEnded: isForgotten(node.lastEnded) ? '' : node.lastEnded,
            ended: node.ended.filter(({ claim }) => !isForgotten(claim)),
          }
        : node
      return { ...column, votes, messages, stray, node: rest }
    })
    return { ...state, clients, columns }
  }

  /** A node takes a message. */
  function arrive(column: Column, one: Message): Column {
    const rest = { ...column, messages: column.messages.filter((other) => other !== one) }
    const { claim, client, n } = one
    if (one.kind === 'acquire' || one.kind === 'heal') {
      const request = { key: 'k', claim, holder: '', ttlMs: ttl, tokenFloor: one.floor }
      const { state, answer } = protocol.acquire(column.node, request, NOW, rules)
      const said: Answer =
        answer.is === 'held'
          ? { is: 'held', because: answer.because, token: answer.token }
          : column.silent > 0 && one.kind === 'acquire'
            ? { is: 'silent' }
            : { is: 'granted', token: answer.token }
      const kind = one.kind === 'heal' ? 'healed' : 'answer'
      return put({ ...rest, node: plain(state) }, message({ kind, client, claim, n, floor: 0, answer: said }))
    }
    if (one.kind === 'renew') {
      const { state, answer: said } = protocol.renew(column.node, claim, ttl, NOW)
      const silent = column.silent > 0 && said.is === 'renewed' && on('silentInRenewals')
      const answer: RenewOutcome = silent ? { is: 'unknown', cause: '' } : said
      return put(
        { ...rest, node: plain(state) },
        message({ kind: 'renewed', client, claim, n, floor: 0, outcome: answer }),
      )
    }
    return end(rest, one)
  }

  /** A node takes the end of a claim. */
  function end(column: Column, { kind, claim }: Pick<Message, 'kind' | 'claim'>): Column {
    if (kind === 'release') return { ...column, node: plain(protocol.release(column.node, claim, NOW, rules).state) }
    const { state } = protocol.withdraw(column.node, claim, NOW, rules)
    return { ...column, node: plain(on('remembersEnded') ? state : { ...state, ended: [], lastEnded: '' }) }
  }

  const endOn = (column: Column, client: number, claim: string, kind: 'release' | 'withdraw'): Column =>
    scope.lateEnds === true
      ? put(column, message({ kind, client, claim, n: 0, floor: 0 }))
      : end(column, { kind, claim })
  const withdrawOn = (column: Column, c: number, claim: string): Column =>
    isEnding(column, claim) || !on('withdraws') ? column : endOn(column, c, claim, 'withdraw')
  const forget = (column: Column, c: number): Column => ({
    ...setVote(column, c, PENDING),
    renewals: column.renewals.map((old, i) => (i === c ? NOTHING : old)),
  })
  const rest: Partial<Client> = { left: 0, token: 0, renewing: 0, confirmed: false, overtaken: false, n: 0, ballot: 0 }

  /** Gives the claim up, on every node. */
  const giveUp = (state: State, c: number): State => {
    const claim = state.clients[c]?.claim ?? ''
    return setClient(
      mapColumns(state, (column) => forget(withdrawOn(column, c, claim), c)),
      c,
      { ...rest, is: 'idle', claim: '' },
    )
  }

  function ask(state: State, c: number, client: Partial<Client>, claim: string): State {
    const me = { ...state.clients[c], ...client } as Client
    return setClient(
      mapColumns(state, (column) =>
        on('endingHasNoVote') && isEnding(column, claim)
          ? setVote(column, c, {
              is: 'held',
              held: { is: 'held', because: 'ended', holder: '', token: 0, remainingMs: 0 },
            })
          : put(setVote(column, c, PENDING), message({ kind: 'acquire', client: c, claim, n: me.n, floor: me.ballot })),
      ),
      c,
      { ...client, claim, is: 'asking', left: ttl },
    )
  }

  /** What the votes of a client come to. */
  function look(state: State, c: number, broken: (rule: Rule, why: string) => void): State {
    const client = state.clients[c] as Client
    const votes = state.columns.map((column) => column.votes[c] as Vote)
    let verdict = judge(votes, majority)
    if (verdict.is === 'raise' && !on('writesBack')) verdict = { is: 'granted', token: verdict.token }
    if (verdict.is === 'open') return state
    if (verdict.is === 'raise') {
      const { token } = verdict
      return mapColumns(state, (column) => {
        const vote = column.votes[c] as Vote
        if (vote.is !== 'granted' || vote.granted.token >= token) return column
        const again = message({ kind: 'acquire', client: c, claim: client.claim, n: client.n, floor: token })
        return put(setVote(column, c, PENDING), again)
      })
    }
    if (verdict.is === 'granted') {
      if (client.left === 0 && on('comparesTheDeadline')) return giveUp(state, c)
      const { token } = verdict
      if (token <= state.greatest && state.whose !== client.claim)
        broken('token', `${client.claim} is granted ${token} after ${state.greatest} of ${state.whose}`)
      const counted = { ...state, greatest: Math.max(token, state.greatest), whose: client.claim }
      if (client.left === 0) return giveUp(counted, c)
      return setClient(counted, c, { is: 'held', token })
    }
    if (client.repeats > 0 && isFirst(votes, client.ballot, majority)) {
      const again = message({ kind: 'acquire', client: c, claim: client.claim, n: client.n, floor: client.ballot })
      return setClient(
        mapColumns(state, (column) => {
          const vote = column.votes[c]
          return vote?.is === 'held' && vote.held.because !== 'ended' ? put(setVote(column, c, PENDING), again) : column
        }),
        c,
        { repeats: client.repeats - 1 },
      )
    }
    if (verdict.refused && (!votes.some((vote) => vote.is === 'granted') || isHeldByAnother(votes, majority))) {
      const isVote = (is?: Vote['is']) => is === 'failed' || (is === 'granted' && on('takesBackVotes'))
      const back = (column: Column) =>
        isVote(column.votes[c]?.is) || (column.stray[c] === true && on('takesBackStrays'))
      return setClient(
        mapColumns(state, (column) =>
          back(column) ? setStray(withdrawOn(column, c, client.claim), c, false) : column,
        ),
        c,
        { is: 'refused' },
      )
    }
    return giveUp(state, c)
  }

  /** A client gets a reply. */
  function hear(state: State, place: number, one: Message, broken: (rule: Rule, why: string) => void): State {
    const { client: c, claim, n } = one
    const client = state.clients[c] as Client
    const change = (fn: (column: Column) => Column): State => ({
      ...state,
      columns: state.columns.map((column, i) =>
        i === place ? fn({ ...column, messages: column.messages.filter((other) => other !== one) }) : column,
      ),
    })
    const mine = client.claim === claim
    if (one.kind === 'answer') {
      const { answer } = one
      if (mine && client.is === 'asking' && client.n === n && answer !== undefined)
        return look(
          change((column) => setVote(column, c, voteOf(answer))),
          c,
          broken,
        )
      // After the answer: kept by a lease, taken back where it was refused.
      const isRefused = mine ? client.is === 'refused' : claim === client.refused
      if (isRefused && answer?.is !== 'held' && on('takesBack')) return change((column) => withdrawOn(column, c, claim))
      const isStray = mine && client.is === 'asking' && answer?.is !== 'held'
      return change((column) => (isStray ? setStray(column, c, true) : column))
    }
    if (one.kind === 'healed') {
      const late = !(mine && client.is === 'held') && one.answer?.is === 'granted'
      return change((column) => (late ? withdrawOn(column, c, claim) : column))
    }
    if (!mine || client.is !== 'held' || client.n !== n || one.outcome === undefined) return change((column) => column)
    const { outcome } = one
    const heal = (column: Column): Column => {
      const vote = column.renewals[c]
      if (vote?.is !== 'lost' || vote.reason !== 'expired' || isEnding(column, claim)) return column
      const healing = message({ kind: 'heal', client: c, claim, n: 0, floor: client.token })
      return column.messages.some(({ text }) => text === healing.text) ? column : put(column, healing)
    }
    const told = change((column) => ({
      ...column,
      renewals: column.renewals.map((old, i) => (i === c ? outcome : old)),
    }))
    if (client.confirmed)
      return { ...told, columns: told.columns.map((column, i) => (i === place ? heal(column) : column)) }
    if (client.renewing === 0) return told
    const verdict = judgeRenewal(
      told.columns.map((column) => column.renewals[c]),
      majority,
    )
    if (verdict === undefined) return told
    if (verdict.is === 'lost' && on('neverRevives')) {
      return setClient(
        mapColumns(told, (column) =>
          forget(column.renewals[c]?.is === 'lost' ? column : withdrawOn(column, c, claim), c),
        ),
        c,
        { ...rest, is: 'lost', claim },
      )
    }
    if (client.overtaken)
      broken('revived', `${claim} (${client.token}) goes on after ${state.greatest} of ${state.whose} was granted`)
    // Without the guard: all the same.
    const left = verdict.is === 'renewed' ? Math.max(client.left, client.renewing) : client.left
    return setClient(mapColumns(told, heal), c, { left, confirmed: verdict.is === 'renewed' })
  }

  return {
    start: {
      columns: Array.from({ length: scope.nodes }, (_, i) => ({
        node: { ...unknown, token: scope.tokens?.[i] ?? 0 },
        silent: 0,
        messages: [],
        votes: scope.clients.map(() => PENDING),
        renewals: scope.clients.map(() => NOTHING),
        stray: scope.clients.map(() => false),
      })),
      clients: scope.clients.map(({ asks, repeats = 0, renewals = 0 }) => ({
        is: 'idle',
        claim: '',
        lapsed: '',
        refused: '',
        asks,
        repeats,
        renewals,
        n: 0,
        ballot: 0,
        left: 0,
        token: 0,
        renewing: 0,
        confirmed: false,
        overtaken: false,
      })),
      losses: scope.losses ?? 0,
      greatest: 0,
      whose: '',
      asked: 0,
      lostReplies: scope.lostReplies ?? 0,
    },

    key(state) {
      const columns = state.columns.map(columnId).sort((a, b) => a - b)
      const { losses, lostReplies, greatest, whose, asked } = state
      const counts = `${losses}.${lostReplies}.${greatest}.${whose}.${scope.clocks === true ? asked : ''}`
      return `${columns.join('.')};${state.clients.map(clientId).join('.')};${counts}`
    },

    check(state, broken) {
      const believe = state.clients.filter((client) => client.is === 'held' && client.left > 0)
      if (believe.length > 1) broken('two believe', believe.map(({ claim }) => claim).join(' and '))
      // A node that lost its data may take what was withdrawn: one ghost of one ttl.
      for (const { node, messages } of (scope.losses ?? 0) > 0 ? [] : state.columns) {
        if (!protocol.isHeld(node, NOW)) continue
        const wanted = state.clients.some(
          ({ claim, lapsed, is }) => lapsed === node.claim || (claim === node.claim && is !== 'refused'),
        )
        if (!wanted && !messages.some(({ claim }) => claim === node.claim))
          broken('ghost', `${node.claim} is kept by a node, nobody wants it, and nothing of it is on its way`)
      }
    },

    next(state, come, broken) {
      const to = (what: string, next: State) => come(what, tidy(next))
      const seen = new Set<number>()
      for (const [place, column] of state.columns.entries()) {
        const id = columnId(column)
        if (seen.has(id)) continue // the same node once more
        seen.add(id)
        const handled = new Set<string>()
        for (const one of column.messages) {
          if (handled.has(one.text)) continue
          handled.add(one.text)
          if (one.n === HELD_BACK && isOpen(column, one.claim)) continue
          if (isRequest(one)) {
            const taken = arrive(column, one)
            const columns = state.columns.map((other, i) => (i === place ? taken : other))
            const after = { ...state, columns }
            const reply = taken.messages.find((other) => !column.messages.includes(other))
            if (reply === undefined || scope.lateReplies === true) to(`node ${place} takes ${one.text}`, after)
            else {
              if (state.lostReplies > 0)
                to(`node ${place} takes ${one.text}, reply lost`, { ...after, lostReplies: state.lostReplies - 1 })
              to(`node ${place} answers ${one.text} by ${reply.text}`, hear(after, place, reply, broken))
            }
          } else if (scope.lateReplies === true)
            to(`client hears ${one.text} of node ${place}`, hear(state, place, one, broken))
        }
        if (state.losses > 0 && column.node !== unknown) {
          const empty = { ...column, node: unknown, silent: on('waitsAfterLoss') ? ttl : 0 }
          const columns = state.columns.map((other, i) => (i === place ? empty : other))
          to(`node ${place} loses its data`, { ...state, columns, losses: state.losses - 1 })
        }
      }
      for (const [c, client] of state.clients.entries()) {
        const name = `client ${c}`
        const waits = scope.settled === true && state.columns.some((column) => isOpen(column, client.claim))
        const others = state.clients.filter((other) => other !== client)
        const busy =
          scope.settled === true && others.some(({ claim }) => state.columns.some((column) => isOpen(column, claim)))
        if ((client.is === 'idle' || client.is === 'lost' || client.is === 'refused') && client.asks > 0 && !busy) {
          const claim = `${'abc'[c]}${client.asks}`
          const asked = state.asked + 1
          const lapsed =
            client.is === 'lost' ? { lapsed: client.claim } : client.is === 'refused' ? { refused: client.claim } : {}
          const ballot = scope.clocks === true ? asked * 10 : 0
          to(
            `${name} asks as ${claim}`,
            ask({ ...state, asked }, c, { ...rest, ...lapsed, asks: client.asks - 1, n: 1, ballot }, claim),
          )
        }
        if ((client.is === 'asking' || client.is === 'refused') && client.repeats > 0) {
          const next = { repeats: client.repeats - 1, n: client.n + 1 }
          to(`${name} asks again`, ask(state, c, next, client.claim))
        }
        if (client.is === 'asking' && scope.patient !== true) to(`${name} gives up`, giveUp(state, c))
        if (client.is === 'held' && !waits) {
          const { claim } = client
          const free = (column: Column, waits: boolean): Column => {
            if (!isOpen(column, claim) || !on('releasesWhatIsOpen')) return endOn(column, c, claim, 'release')
            if (!waits) return withdrawOn(column, c, claim)
            return put(column, message({ kind: 'release', client: c, claim, n: HELD_BACK, floor: 0 }))
          }
          const released = (waits: boolean) =>
            setClient(
              mapColumns(state, (column) => forget(free(column, waits), c)),
              c,
              { ...rest, is: 'idle', claim: '' },
            )
          to(`${name} releases`, released(false))
          if (on('releasesWhatIsOpen') && state.columns.some((column) => isOpen(column, claim)))
            to(`${name} releases, and waits for what is on its way`, released(true))
          if (client.renewals > 0) {
            const n = client.n + 1
            const sent = mapColumns(state, (column) =>
              put(
                { ...column, renewals: column.renewals.map((old, i) => (i === c ? NOTHING : old)) },
                message({ kind: 'renew', client: c, claim, n, floor: 0 }),
              ),
            )
            const part = {
              renewals: client.renewals - 1,
              renewing: ttl,
              confirmed: false,
              n,
              overtaken: state.greatest > client.token,
            }
            to(`${name} renews`, setClient(sent, c, part))
          }
        }
      }
      let later: State = {
        ...state,
        columns: state.columns.map((column) => ({
          ...column,
          node: column.node === unknown ? unknown : tick(column.node),
          silent: Math.max(0, column.silent - 1),
        })),
        clients: state.clients.map((client) => {
          const left = Math.max(0, client.left - 1)
          const renewing = Math.max(0, client.renewing - 1)
          if (client.is === 'held' && left === 0) return { ...client, ...rest, is: 'lost' }
          return { ...client, left, renewing }
        }),
      }
      // Who can be granted no more gives up.
      if (on('comparesTheDeadline'))
        for (const [c, client] of later.clients.entries())
          if (client.is === 'asking' && client.left === 0) later = giveUp(later, c)
      to('time passes', later)
    },
  }
}

function voteOf(answer: Answer): Vote {
  if (answer.is === 'silent') return { is: 'failed', error: undefined as never, applied: 'yes' }
  if (answer.is === 'granted')
    return { is: 'granted', granted: { is: 'granted', token: answer.token, ttlMs: 0 } satisfies Granted }
  return { is: 'held', held: { is: 'held', because: answer.because, holder: '', token: answer.token, remainingMs: 0 } }
}
