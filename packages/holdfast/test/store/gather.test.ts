// Operations that are gathered into one statement: what shares one, who waits for whom, and what each caller is told.
import { describe, expect, it } from 'vitest'
import { StoreError } from '../../src/lease/errors.js'
import { Gathered, type GatherOptions } from '../../src/store/gather.js'
import { VirtualClock } from '../../src/testing/clock.js'

interface Sent {
  readonly ops: readonly string[]
  readonly timeoutMs: number | undefined
  answer(): Promise<void>
  fail(error: Error): Promise<void>
}

function setUp(options: Partial<GatherOptions<string, string>> = {}) {
  const sent: Sent[] = []
  const clock = new VirtualClock()
  const gathered = new Gathered<string, string>({
    keyOf: (op) => op.split('#')[0] ?? '',
    blamesOne: (error) => error.message.startsWith('bad'),
    clock,
    send: (ops, timeoutMs) =>
      new Promise((resolve, reject) => {
        const settled = async (end: () => void) => {
          end()
          await turn()
        }
        sent.push({
          ops,
          timeoutMs,
          answer: () => settled(() => resolve(ops.map((op) => `${op}!`))),
          fail: (error) => settled(() => reject(error)),
        })
      }),
    ...options,
  })
  const told: string[] = []
  const ask = (op: string, timeoutMs?: number, signal?: AbortSignal) => {
    const call = { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...(signal === undefined ? {} : { signal }) }
    gathered.ask(op, call).then(
      (answer) => told.push(answer),
      (error) => told.push(`${op}: ${error.outcome ?? ''} ${error.message}`),
    )
  }
  const batches = () => sent.map(({ ops }) => ops)
  return { ask, sent, told, batches, clock }
}

/** Lets all that has been promised so far be done. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
const none = (message: string) => new StoreError(message, { outcome: 'none' })

describe('what shares a statement', () => {
  it('what is asked for in one turn, and later all that came while a statement was under way', async () => {
    const { ask, sent, told, batches } = setUp()
    for (const op of ['a', 'b']) ask(op)
    await turn()
    for (const op of ['c', 'd']) ask(op)
    await turn()
    ask('e')
    await turn()
    expect(batches()).toEqual([['a', 'b']])
    await sent[0]?.answer()
    expect(batches()).toEqual([
      ['a', 'b'],
      ['c', 'd', 'e'],
    ])
    await sent[1]?.answer()
    expect(told).toEqual(['a!', 'b!', 'c!', 'd!', 'e!'])
  })

  it('as many statements as there may be are under way, and no more', async () => {
    const { ask, sent, batches } = setUp({ statements: 2 })
    for (const op of ['a', 'b', 'c', 'd']) {
      ask(op)
      await turn()
    }
    expect(batches()).toEqual([['a'], ['b']])
    await sent[1]?.answer()
    expect(batches()).toEqual([['a'], ['b'], ['c', 'd']])
  })

  it('no more operations than fit, and each key once, first come first', async () => {
    const { ask, sent, batches } = setUp({ operations: 3 })
    for (const op of ['a#1', 'a#2', 'b#1', 'a#3', 'c#1', 'd#1']) ask(op)
    await turn()
    await sent[0]?.answer()
    await sent[1]?.answer()
    await sent[2]?.answer()
    expect(batches()).toEqual([['a#1', 'b#1', 'c#1'], ['a#2', 'd#1'], ['a#3']])
  })
})

describe('what each caller is told', () => {
  it('an unknown outcome is that of all; so is an error that no operation can have caused', async () => {
    for (const error of [new StoreError('bad, and cut off', { outcome: 'unknown' }), none('refused')]) {
      const { ask, sent, told, batches } = setUp()
      for (const op of ['a', 'b']) ask(op)
      await turn()
      await sent[0]?.fail(error)
      expect(told).toEqual([`a: ${error.outcome} ${error.message}`, `b: ${error.outcome} ${error.message}`])
      expect(batches()).toHaveLength(1)
    }
  })

  it('what one may have spoiled is sent again in halves, and only that one is told', async () => {
    const { ask, sent, told, batches } = setUp()
    for (const op of ['a', 'b', 'c']) ask(op)
    await turn()
    await sent[0]?.fail(none('bad data'))
    await sent[1]?.fail(none('bad data'))
    await sent[2]?.answer()
    await sent[3]?.fail(none('bad data'))
    await sent[4]?.answer()
    expect(batches().slice(1)).toEqual([['a', 'b'], ['a'], ['b'], ['c']])
    expect(told).toEqual(['a!', 'b: none bad data', 'c!'])
  })

  it('whoever gave up before the turn came is not sent, and told so', async () => {
    const { ask, sent, told, batches, clock } = setUp()
    const leaving = new AbortController()
    ask('a', 30)
    await turn()
    ask('b', 20)
    ask('c', 40, leaving.signal)
    ask('d', 40)
    leaving.abort()
    await clock.advance(25)
    await sent[0]?.answer()
    expect(batches()).toEqual([['a'], ['d']])
    expect(sent.map(({ timeoutMs }) => timeoutMs)).toEqual([30, 15])
    expect(told.sort()).toEqual([
      'a!',
      'b: none not sent: the caller gave up before its turn came',
      'c: none not sent: the caller gave up before its turn came',
    ])
  })
})

describe('a slow statement', () => {
  it('keeps others waiting only for a moment, and few may be slow at once', async () => {
    const { ask, sent, told, batches, clock } = setUp()
    ask('a')
    await turn()
    for (let i = 0; i < 8; i++) {
      ask(`b${i}`)
      await turn()
      await clock.advance(100)
    }
    expect(batches()).toHaveLength(5) // four slow ones, and the one that counts
    expect(told).toEqual([])
    await sent[4]?.answer()
    expect(batches()[5]).toEqual(['b4', 'b5', 'b6', 'b7'])
    await sent[0]?.answer()
    await sent[5]?.answer()
    ask('c')
    await turn()
    ask('d')
    await turn()
    expect(batches().slice(6)).toEqual([['c']]) // the slow one that ended gave no second place
  })
})
