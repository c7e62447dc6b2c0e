// The protocol in small scope, exhaustively: nothing that may not happen is reachable, and for each guard that is switched off,
// something is. Prints how many states were looked at.
import { afterAll, describe, expect, it } from 'vitest'
import { type Explored, explore } from './explorer.js'
import { GUARDS, type Guard, type Rule, type Scope } from './guards.js'
import { leaseModel } from './lease-model.js'
import { type QueueGuards, type QueueRule, type QueueScope, queueModel } from './queue-model.js'

let states = 0
let steps = 0
const counted = (explored: Explored): Explored => {
  states += explored.states
  steps += explored.steps
  return explored
}
afterAll(() => console.log(`model check: ${states} states, ${steps} steps`))

/** What is broken with all guards on; each scope is explored once. */
const sound = new Map<string, Explored>()
function whole(scope: Scope): Explored {
  const key = JSON.stringify(scope)
  const known = sound.get(key) ?? counted(explore(leaseModel(scope)))
  sound.set(key, known)
  return known
}

/** The shortest ways to whatever is broken, for people to read. */
const ways = ({ broken }: Explored) =>
  [...broken].map(([rule, { why, way }]) => [`${rule}: ${why}`, ...way].join('\n  '))

const once = { asks: 1 }
const exact = { ttl: 2, margin: 0, drift: false }
const scopes: Record<string, Scope> = {
  'two clients, one repeats': { ...exact, clients: [{ asks: 1, repeats: 1 }, once] },
  'a repeat and a renewal': { ...exact, clients: [{ asks: 1, repeats: 1, renewals: 1 }, once] },
  'a handover and a repeat': { ...exact, clients: [{ asks: 1, repeats: 1, handovers: 1 }, once] },
  'clocks that drift within the margin': { ttl: 3, margin: 1, drift: true, clients: [once, once] },
  'a margin and a renewal': { ttl: 3, margin: 1, drift: false, clients: [{ asks: 1, renewals: 1 }, once] },
  'three clients': { ...exact, clients: [once, once, once] },
  'an operator revokes': { ...exact, clients: [{ asks: 1, renewals: 1 }, once], revocations: 1 },
  'the store forgets the record': { ...exact, clients: [{ asks: 1, repeats: 1 }, once], prunings: 1 },
  'writes after the last check': {
    ...exact,
    clients: [
      { asks: 1, writes: 1 },
      { asks: 1, writes: 1 },
    ],
  },
}

describe('leases', () => {
  for (const [name, scope] of Object.entries(scopes))
    it(`${name}: nothing breaks`, () => {
      expect(ways(whole(scope))).toEqual([])
    })

  it('a network that repeats requests leaves ghosts of one ttl at most: never two who believe', () => {
    const { broken } = counted(
      explore(leaseModel({ ...exact, clients: [{ asks: 1, renewals: 1 }, once], duplicates: 1 })),
    )
    expect([...broken.keys()].sort()).toEqual(['ended holds again', 'ghost'])
  })

  const controls: Record<Guard, [scope: Scope, breaks: Rule]> = {
    rememberWithdrawn: [{ ...exact, clients: [{ asks: 1, repeats: 1 }, once] }, 'ghost'],
    rememberReleased: [{ ...exact, clients: [once], duplicates: 1 }, 'ended holds again'],
    repeatExtends: [{ ...exact, clients: [{ asks: 1, repeats: 1 }, once] }, 'two believe'],
    deadlineFromSend: [{ ...exact, clients: [once, once] }, 'two believe'],
    margin: [{ ttl: 3, margin: 1, drift: true, clients: [once, once] }, 'two believe'],
    withdrawGivenUp: [{ ...exact, clients: [once] }, 'ghost'],
    withdrawLateGrant: [{ ...exact, clients: [{ asks: 1, repeats: 1 }, once] }, 'ghost'],
    withdrawOverdue: [{ ...exact, clients: [{ asks: 1, renewals: 1 }] }, 'ghost'],
    withdrawToldLost: [{ ...exact, clients: [{ asks: 1, repeats: 1, renewals: 1 }] }, 'ghost'],
    withdrawPredecessor: [{ ...exact, clients: [{ asks: 1, handovers: 1 }] }, 'ghost'],
    handoverWaits: [{ ...exact, clients: [{ asks: 1, repeats: 1, handovers: 1 }] }, 'ended holds again'],
    releaseLooksFirst: [{ ...exact, clients: [{ asks: 1, repeats: 1 }] }, 'ghost'],
    windDown: [{ ttl: 3, margin: 1, drift: false, clients: [{ asks: 1, renewals: 1 }, once] }, 'overtaken'],
    expiryIsFinal: [{ ...exact, clients: [{ asks: 1, renewals: 1 }] }, 'revived'],
    expiredGetsNewToken: [{ ...exact, clients: [{ asks: 1, repeats: 1 }] }, 'revived'],
    tokensOutlivePruning: [{ ...exact, clients: [once, once], prunings: 1 }, 'token'],
    pruningWaits: [{ ...exact, clients: [{ asks: 1, repeats: 1 }], prunings: 1 }, 'ended holds again'],
    fenced: [
      {
        ...exact,
        clients: [
          { asks: 1, writes: 1 },
          { asks: 1, writes: 1 },
        ],
      },
      'fence',
    ],
    fenceIsAtomic: [
      {
        ...exact,
        clients: [
          { asks: 1, writes: 1 },
          { asks: 1, writes: 1 },
        ],
      },
      'fence',
    ],
    revokeLetsRun: [{ ...exact, clients: [once, once], revocations: 1 }, 'two believe'],
  }
  for (const [guard, [scope, breaks]] of Object.entries(controls) as [Guard, [Scope, Rule]][])
    it(`control: without "${GUARDS[guard]}" the rule "${breaks}" breaks`, () => {
      const rule = [breaks]
      expect([...whole(scope).broken.keys()]).not.toContain(breaks)
      expect([...counted(explore(leaseModel(scope, [guard]), { until: rule })).broken.keys()]).toContain(breaks)
    })
})

describe('the fair queue', () => {
  const three: QueueScope = { waiters: 3, ttl: 2, poll: 2, asksAfter: 1, deaths: 1, giveUps: 1 }
  const four: QueueScope = { ...three, waiters: 4, giveUps: 0 }
  const slow: QueueScope = { ...three, poll: 3 }

  for (const [name, scope] of Object.entries({ three, four, slow, deadly: { ...three, deaths: 2, giveUps: 0 } }))
    it(`${name}: first come first served, no turn lost, a dead head costs its reservation, nobody stands in line twice`, () => {
      expect(ways(counted(explore(queueModel(scope))))).toEqual([])
    })

  const controls: [what: string, scope: QueueScope, guards: QueueGuards, breaks: QueueRule][] = [
    ['a waiter tells a longer time than it sleeps', { ...three, asksAfter: three.poll }, {}, 'turn lost'],
    ['a reservation ends', slow, { reservationEnds: false }, 'idle'],
    ['a claim joins once', three, { joinsOnce: false }, 'twice'],
    ['who comes later stands behind', three, { inOrder: false }, 'turn lost'],
    ['a free key is kept for the head', three, { turnIsKept: false }, 'overtaken'],
  ]
  for (const [what, scope, guards, breaks] of controls)
    it(`control: without "${what}" the rule "${breaks}" breaks`, () => {
      expect([...counted(explore(queueModel(scope, guards), { until: [breaks] })).broken.keys()]).toContain(breaks)
    })
})
