// `once` in virtual time: repeats, failures, crashes, a network that loses requests and replies.
import { describe, expect, it, vi } from 'vitest'
import type { Records } from '../../src/idempotency/contract.js'
import {
  InProgressError,
  KeyReusedError,
  NotRecordedError,
  once,
  onceResult,
  RecordedFailureError,
  type RunInfo,
  UnknownOutcomeError,
} from '../../src/idempotency/index.js'
import { LeaseLostError, StoreError } from '../../src/index.js'
import { seededRandom } from '../../src/testing/index.js'
import { FINGERPRINT, held, KEY, setUp, watched } from './world.js'

const never = () => {
  throw new Error('must not run')
}

/** A process that claimed the key and died. */
async function crashed({ memory }: ReturnType<typeof setUp>, ttlMs = 30_000) {
  await memory.begin({
    key: KEY,
    fingerprint: FINGERPRINT,
    claim: 'dead',
    holder: 'web-9:17',
    ttlMs,
    retentionMs: 86_400_000,
    takeOver: false,
  })
}

describe('the first run and its repeats', () => {
  it('one begin and one finish, and a repeat is one begin', async () => {
    const world = setUp()
    expect(await world.run(() => ({ id: 'p1' }))).toEqual({ id: 'p1' })
    expect(world.sent).toEqual({ begin: 1, extend: 0, finish: 1, withdraw: 0 })
    expect(await world.run(never)).toEqual({ id: 'p1' })
    expect(world.sent).toEqual({ begin: 2, extend: 0, finish: 1, withdraw: 0 })
    expect(world.clock.pending).toBeLessThanOrEqual(1)
    expect(world.clock.keepsAlive).toBe(false)
  })

  it('work that gives nothing is replayed as nothing', async () => {
    const world = setUp()
    expect(await world.run(() => undefined)).toBe(undefined)
    expect(await world.run<undefined>(never)).toBe(undefined)
  })

  it('onceResult says whether it was replayed, and after how many runs', async () => {
    const { net, clock } = setUp()
    const options = { key: KEY, fingerprint: FINGERPRINT, clock }
    expect(await onceResult(net, options, () => 1)).toMatchObject({ value: 1, replayed: false, attempt: 1 })
    expect(await onceResult(net, options, never)).toMatchObject({ value: 1, replayed: true, attempt: 1 })
  })

  it('the work is told key, token and attempt', async () => {
    const { runs, work, end } = held<number>()
    const world = setUp()
    const result = world.run(work)
    await world.clock.settle()
    expect(runs).toMatchObject([{ key: KEY, attempt: 1, afterUnknown: false }])
    expect(runs[0]?.token).toBeGreaterThan(0)
    end(1)
    await result
  })

  it('a result is kept for retentionMs', async () => {
    const world = setUp()
    await world.run(() => 1, { retentionMs: 5_000 })
    await world.clock.advance(4_999)
    expect(await world.run(() => 2, { retentionMs: 5_000 })).toBe(1)
    await world.clock.advance(1)
    expect(await world.run(() => 2, { retentionMs: 5_000 })).toBe(2)
  })
})

describe('two at the same time', () => {
  it('the second waits and is told the result, at once when it is in the same process', async () => {
    const world = setUp()
    const { work, end } = held<string>()
    const first = watched(world.run(work))
    await world.clock.settle()
    const second = watched(world.run(never, { waitMs: 60_000 }))
    await world.clock.advance(5_000)
    expect([first.state, second.state]).toEqual(['pending', 'pending'])
    end('paid')
    await world.clock.settle()
    expect([first.value, second.value]).toEqual(['paid', 'paid'])
  })

  it('one in another process asks again about twice a second', async () => {
    const world = setUp()
    await crashed(world, 20_000)
    const second = watched(world.run(never, { waitMs: 10_000 }))
    await world.clock.advance(5_000)
    expect(world.sent.begin).toBeGreaterThan(8)
    expect(world.sent.begin).toBeLessThan(30)
    await world.memory.finish({ key: KEY, claim: 'dead' }, { is: 'returned', text: '7' }, 60_000)
    await world.clock.advance(700)
    expect(second.value).toBe(7)
  })

  it('with waitMs 0 the second is told that it is in progress, and for how long at most', async () => {
    const world = setUp()
    await crashed(world)
    const error = await world.run(never, { waitMs: 0 }).catch((e) => e)
    expect(error).toBeInstanceOf(InProgressError)
    expect(error).toMatchObject({ key: KEY, holder: 'web-9:17', remainingMs: 30_000, waitedMs: 0 })
  })

  it('when the wait is over it is told so', async () => {
    const world = setUp()
    await crashed(world)
    const second = watched(world.run(never, { waitMs: 2_000 }))
    await world.clock.advance(2_100)
    expect(second.error).toBeInstanceOf(InProgressError)
    expect((second.error as InProgressError).waitedMs).toBeGreaterThanOrEqual(2_000)
  })

  it('the wait ends with the signal, and leaves no timer', async () => {
    const world = setUp()
    await crashed(world)
    const controller = new AbortController()
    const second = watched(world.run(never, { signal: controller.signal }))
    await world.clock.advance(100)
    controller.abort(new Error('gone'))
    await world.clock.settle()
    expect(second.error).toMatchObject({ message: 'gone' })
    expect(world.clock.keepsAlive).toBe(false)
    await expect(world.run(never, { signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow('before')
  })

  it('when the first fails, exactly one of those who wait runs (C57)', async () => {
    const world = setUp()
    const { work, fail } = held<number>()
    const first = watched(world.run(work))
    await world.clock.settle()
    let runs = 0
    const others = Array.from({ length: 20 }, () =>
      world.run(async () => {
        runs++
        return 7
      }),
    )
    await world.clock.advance(100)
    fail(new Error('no'))
    await world.clock.advance(2_000)
    expect(first.error).toMatchObject({ message: 'no' })
    expect(await Promise.all(others)).toEqual(Array.from({ length: 20 }, () => 7))
    expect(runs).toBe(1)
  })
})

describe('another request with the same key (C55)', () => {
  it('is refused while the first runs and when it is done, before anything else is told', async () => {
    const world = setUp()
    const { work, end } = held<number>()
    const first = world.run(work)
    await world.clock.settle()
    const error = await world.run(never, { fingerprint: 'h1-other', waitMs: 0 }).catch((e) => e)
    expect(error).toBeInstanceOf(KeyReusedError)
    expect(error).toMatchObject({ key: KEY, state: 'running' })
    end(1)
    await first
    await expect(world.run(never, { fingerprint: 'h1-other' })).rejects.toMatchObject({
      code: 'KEY_REUSED',
      state: 'done',
    })
  })

  it('runs when the first failed, and was forgotten', async () => {
    const world = setUp()
    await expect(world.run(() => Promise.reject(new Error('amount must be above 0')))).rejects.toThrow('amount')
    expect(await world.run(({ attempt }) => attempt, { fingerprint: 'h1-corrected' })).toBe(2)
  })
})

describe('failures', () => {
  it('are forgotten by default: the caller gets the error, a repeat runs', async () => {
    const world = setUp()
    const error = new Error('first')
    expect(await world.run(() => Promise.reject(error)).catch((e) => e)).toBe(error)
    expect(await world.run(() => 2)).toBe(2)
  })

  it('are recorded when the caller says so, by kind', async () => {
    const world = setUp()
    const declined = Object.assign(new Error('card declined'), { name: 'CardError', code: 'declined' })
    const onFailure = (error: unknown) => ((error as Error).name === 'CardError' ? 'record' : 'forget')
    expect(await world.run(() => Promise.reject(declined), { onFailure }).catch((e) => e)).toBe(declined)
    const replayed = await world.run(never, { onFailure }).catch((e) => e)
    expect(replayed).toBeInstanceOf(RecordedFailureError)
    expect(replayed.failure).toEqual({ name: 'CardError', message: 'card declined', code: 'declined' })
  })

  it('that leave it open whether the effect happened are unknown', async () => {
    const world = setUp()
    const onFailure = () => 'unknown' as const
    await expect(world.run(() => Promise.reject(new Error('timed out')), { onFailure })).rejects.toThrow('timed out')
    await expect(world.run(never)).rejects.toBeInstanceOf(UnknownOutcomeError)
  })

  it('of a run that was interrupted are unknown by default', async () => {
    const world = setUp()
    const controller = new AbortController()
    const result = watched(
      world.run(
        ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        {
          signal: controller.signal,
        },
      ),
    )
    await world.clock.settle()
    controller.abort(new Error('shutting down'))
    await world.clock.settle()
    expect(result.error).toMatchObject({ message: 'shutting down' })
    await expect(world.run(never)).rejects.toBeInstanceOf(UnknownOutcomeError)
  })

  it('come back as the failureCodec makes them', async () => {
    const world = setUp()
    const failureCodec = { encode: () => 'x', decode: (text: string) => new RangeError(`was ${text}`) }
    const options = { onFailure: () => 'record' as const, failureCodec }
    await expect(world.run(() => Promise.reject(new Error('a')), options)).rejects.toThrow('a')
    await expect(world.run(never, options)).rejects.toThrow(new RangeError('was x'))
  })

  it('an onFailure that throws leaves the outcome unknown and hides nothing', async () => {
    const world = setUp()
    const onFailure = () => {
      throw new Error('a mistake')
    }
    const error = await world.run(() => Promise.reject(new Error('no')), { onFailure }).catch((e) => e)
    expect(error).toBeInstanceOf(NotRecordedError)
    expect(error).toMatchObject({ outcome: { is: 'threw', error: { message: 'no' } }, cause: { message: 'a mistake' } })
  })
})

describe('a crash between effect and record', () => {
  it('is told by default, with what a person needs', async () => {
    const world = setUp()
    await crashed(world)
    await world.clock.advance(31_000)
    const error = await world.run(never).catch((e) => e)
    expect(error).toBeInstanceOf(UnknownOutcomeError)
    expect(error).toMatchObject({ key: KEY, holder: 'web-9:17', attempt: 1, forMs: 1_000 })
    expect(await world.memory.inspect(KEY)).toMatchObject({ state: 'unknown' })
  })

  it('a repeat that waits learns of it when the term is over', async () => {
    const world = setUp()
    await crashed(world, 5_000)
    const second = watched(world.run(never, { waitMs: 60_000 }))
    await world.clock.advance(5_100)
    expect(second.error).toBeInstanceOf(UnknownOutcomeError)
  })

  it("with onUnknown 'run' the work runs again, with the same key, a bigger token and the next attempt", async () => {
    const world = setUp()
    await crashed(world)
    await world.clock.advance(31_000)
    const run = await world.run(({ key, attempt, afterUnknown }) => ({ key, attempt, afterUnknown }), {
      onUnknown: 'run',
    })
    expect(run).toEqual({ key: KEY, attempt: 2, afterUnknown: true })
  })

  it('a function looks, alone, and records what it found', async () => {
    const world = setUp()
    await crashed(world)
    await world.clock.advance(31_000)
    const look = held<{ value: string }>()
    const looking = watched(world.run(never as () => string, { onUnknown: look.work }))
    await world.clock.settle()
    await expect(world.run(never, { waitMs: 0, onUnknown: 'run' })).rejects.toBeInstanceOf(InProgressError)
    look.end({ value: 'paid by the first' })
    await world.clock.settle()
    expect(looking.value).toBe('paid by the first')
    expect(await world.run(never)).toBe('paid by the first')
  })

  it('a function is asked only after a run that ended unknown', async () => {
    const world = setUp()
    const asked: unknown[] = []
    const onUnknown = (run: RunInfo) => {
      asked.push(run)
      return 'stop' as const
    }
    expect(await world.run(() => 'paid', { onUnknown })).toBe('paid')
    expect(await world.run(never, { onUnknown })).toBe('paid')
    expect(asked).toEqual([])
  })

  it("a function that answers 'run' runs, 'stop' leaves it unknown, and one that throws too", async () => {
    const world = setUp()
    await crashed(world)
    await world.clock.advance(31_000)
    await expect(world.run(never, { onUnknown: () => 'stop' })).rejects.toBeInstanceOf(UnknownOutcomeError)
    await expect(world.run(never, { onUnknown: () => Promise.reject(new Error('down')) })).rejects.toThrow('down')
    expect(await world.memory.inspect(KEY)).toMatchObject({ state: 'unknown', attempt: 3 })
    expect(await world.run(({ attempt }) => attempt, { onUnknown: () => 'run' })).toBe(4)
  })
})

describe('the term of a run', () => {
  it('is renewed while the work runs, for hours', async () => {
    const world = setUp()
    const { work, end, runs } = held<number>()
    const first = world.run(work)
    await world.clock.advance(6 * 3_600_000)
    expect(runs[0]?.signal.aborted).toBe(false)
    await expect(world.run(never, { waitMs: 0 })).rejects.toBeInstanceOf(InProgressError)
    expect(world.sent.extend).toBeLessThanOrEqual((6 * 3_600_000) / 15_000 + 1)
    end(1)
    expect(await first).toBe(1)
  })

  it('cannot be renewed: the signal aborts before the term is over, and the result is recorded for all that', async () => {
    const world = setUp()
    const { work, end, runs } = held<number>()
    const first = world.run(work)
    await world.clock.settle()
    world.fate = (verb) => (verb === 'extend' ? 'request lost' : 'passes')
    await world.clock.advance(26_900)
    expect(runs[0]?.signal.aborted).toBe(false)
    await world.clock.advance(200)
    expect(runs[0]?.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'deadline' })
    await world.clock.advance(60_000)
    end(5)
    expect(await first).toBe(5)
    expect(await world.run(never)).toBe(5)
  })

  it('was taken from it: the signal aborts at the next renewal, long before the deadline', async () => {
    const world = setUp()
    let claim = ''
    const begin: Records['begin'] = (request) => {
      claim = request.claim
      return world.memory.begin(request)
    }
    const run = held<string>()
    const options = { key: KEY, fingerprint: FINGERPRINT, clock: world.clock, random: seededRandom(1), ttlMs: 30_000 }
    const first = watched(once({ ...world.memory, begin }, options, run.work))
    await world.clock.settle()
    await world.memory.finish({ key: KEY, claim }, { is: 'forgotten' }, 60_000)
    await world.clock.advance(15_100)
    expect(run.runs[0]?.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'taken' })
    run.end('late')
    await world.clock.settle()
    expect(first.error).toBeInstanceOf(LeaseLostError)
  })

  it('a renewal that fails is tried again', async () => {
    const world = setUp()
    const { work, end, runs } = held<number>()
    const first = world.run(work)
    await world.clock.settle()
    world.fate = (verb, call) => (verb === 'extend' && call < 4 ? 'refused' : 'passes')
    await world.clock.advance(120_000)
    expect(runs[0]?.signal.aborted).toBe(false)
    end(5)
    expect(await first).toBe(5)
  })

  it('the sleep of the machine ends it', async () => {
    const world = setUp()
    const { work, end, runs } = held<number>()
    const first = watched(world.run(work))
    await world.clock.settle()
    world.clock.sleep(60_000)
    await world.clock.advance(1_000)
    expect(runs[0]?.signal.reason).toBeInstanceOf(LeaseLostError)
    end(1)
    await world.clock.advance(1_000)
    expect(first.state).toBe('done')
  })

  it('a stale runner cannot record over its successor, and its outcome is in the error', async () => {
    const world = setUp()
    const { work, end } = held<number>()
    const stale = watched(world.run(work))
    await world.clock.settle()
    world.fate = (verb) => (verb === 'extend' ? 'request lost' : 'passes')
    await world.clock.advance(40_000)
    expect(await world.run(() => 2, { onUnknown: 'run' })).toBe(2)
    end(1)
    await world.clock.settle()
    expect(stale.error).toBeInstanceOf(LeaseLostError)
    expect(stale.error).toMatchObject({ reason: 'taken', outcome: { is: 'returned', value: 1 } })
    expect(await world.run(never)).toBe(2)
  })

  it('goes on when the signal of the caller has aborted and the work has not ended', async () => {
    const world = setUp()
    const controller = new AbortController()
    const { work, end, runs } = held<number>()
    const first = world.run(work, { signal: controller.signal })
    await world.clock.settle()
    controller.abort(new Error('enough'))
    expect(runs[0]?.signal.reason).toMatchObject({ message: 'enough' })
    await world.clock.advance(300_000)
    await expect(world.run(never, { waitMs: 0 })).rejects.toBeInstanceOf(InProgressError)
    end(1)
    expect(await first).toBe(1)
  })
})

describe('a network that loses things', () => {
  it('a claim whose reply was lost is asked for once more, and runs once', async () => {
    const world = setUp()
    world.fate = (verb, call) => (verb === 'begin' && call === 1 ? 'reply lost' : 'passes')
    const result = world.run(({ attempt }) => attempt)
    await world.clock.advance(2_100)
    expect(await result).toBe(1)
  })

  it('a claim that is not answered twice is withdrawn, so that it blocks nobody', async () => {
    const world = setUp()
    world.fate = (verb) => (verb === 'begin' ? 'reply lost' : 'passes')
    const result = watched(world.run(never))
    await world.clock.advance(5_000)
    expect(result.error).toBeInstanceOf(StoreError)
    world.fate = () => 'passes'
    expect(await world.run(() => 1)).toBe(1)
  })

  it('a claim whose reply was lost stays unknown when the repeat certainly did nothing (G13)', async () => {
    const world = setUp()
    world.fate = (verb, call) => (verb !== 'begin' ? 'passes' : call === 1 ? 'reply lost' : 'refused')
    const result = watched(world.run(never))
    await world.clock.advance(5_000)
    expect(result.error).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown', cause: { outcome: 'none' } })
    expect(world.sent.withdraw).toBe(1)
  })

  it('a store that refuses is told at once, and nothing has run', async () => {
    const world = setUp()
    world.fate = () => 'refused'
    await expect(world.run(never)).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
    expect(world.sent.withdraw).toBe(0)
  })

  it('a record whose reply was lost is sent again', async () => {
    const world = setUp()
    world.fate = (verb, call) => (verb === 'finish' && call < 3 ? 'reply lost' : 'passes')
    const result = world.run(() => 1)
    await world.clock.advance(10_000)
    expect(await result).toBe(1)
    expect(await world.run(never)).toBe(1)
  })

  it('a record that never gets through is an error that has the outcome', async () => {
    const world = setUp()
    world.fate = (verb) => (verb === 'finish' ? 'request lost' : 'passes')
    const result = watched(world.run(() => 'paid'))
    await world.clock.advance(60_000)
    expect(result.error).toBeInstanceOf(NotRecordedError)
    expect(result.error).toMatchObject({ key: KEY, outcome: { is: 'returned', value: 'paid' } })
    world.fate = () => 'passes'
    await expect(world.run(never)).rejects.toBeInstanceOf(UnknownOutcomeError)
  })

  it('the error of the work is not hidden by a store that does not answer', async () => {
    const world = setUp()
    world.fate = (verb) => (verb === 'finish' ? 'request lost' : 'passes')
    const result = watched(world.run(() => Promise.reject(new Error('no'))))
    await world.clock.advance(60_000)
    expect(result.error).toMatchObject({ message: 'no' })
  })

  it('a signal that has aborted before sends nothing', async () => {
    const world = setUp()
    const reason = new Error('stop')
    await expect(world.run(never, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(world.sent.begin).toBe(0)
  })

  it('an abort while the claim is on its way runs nothing, and frees the key', async () => {
    const world = setUp()
    const controller = new AbortController()
    const result = watched(world.run(never, { signal: controller.signal }))
    controller.abort(new Error('gone'))
    await world.clock.settle()
    expect(result.error).toMatchObject({ message: 'gone' })
    expect(await world.run(() => 1)).toBe(1)
  })
})

describe('results that cannot be kept', () => {
  it('are an error with the result in it, and repeats are told that it is unknown', async () => {
    for (const value of [new Date(0), { at: undefined }, 1n, 'x'.repeat(200)]) {
      const world = setUp()
      const error = await world.run<unknown>(() => value, { resultBytesMax: 100 }).catch((e) => e)
      expect(error).toBeInstanceOf(NotRecordedError)
      expect(error).toMatchObject({ outcome: { is: 'returned', value } })
      await expect(world.run(never)).rejects.toBeInstanceOf(UnknownOutcomeError)
    }
  })

  it('a codec of the caller carries what it likes', async () => {
    const world = setUp()
    const codec = { encode: (date: Date) => date.toISOString(), decode: (text: string) => new Date(text) }
    await world.run(() => new Date(5), { codec })
    expect(await world.run<Date>(never, { codec })).toEqual(new Date(5))
  })

  it('a codec whose text has a NUL, which some databases cannot keep, is told at the first run', async () => {
    const world = setUp()
    const codec = { encode: () => 'a\0b', decode: (text: string) => text }
    await expect(world.run(() => 'x', { codec })).rejects.toMatchObject({
      code: 'NOT_RECORDED',
      outcome: { value: 'x' },
    })
  })

  it('a stored text that the codec cannot read is an error, not a second run', async () => {
    const world = setUp()
    await world.run(() => 'x', { codec: { encode: (text: string) => text, decode: (text: string) => text } })
    await expect(world.run(never)).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
  })
})

describe('bad input is refused before anything is sent', () => {
  const wrong: [string, object][] = [
    ['key', { key: '' }],
    ['key', { key: 'x'.repeat(513) }],
    ['key', { key: 'a\0b' }],
    ['fingerprint', { fingerprint: undefined }],
    ['fingerprint', { fingerprint: '' }],
    ['fingerprint', { fingerprint: { amount: 1 } }],
    ['retentionMs', { retentionMs: 0 }],
    ['retentionMs', { retentionMs: 11 * 366 * 86_400_000 }],
    ['ttlMs', { ttlMs: 11 * 366 * 86_400_000 }],
    ['retentionMs', { retentionMs: Number.NaN }],
    ['retentionMs', { retentionMs: Number.POSITIVE_INFINITY }],
    ['ttlMs', { ttlMs: 10 }],
    ['ttlMs', { ttlMs: '30s' }],
    ['waitMs', { waitMs: -1 }],
    ['callTimeoutMs', { callTimeoutMs: 20_000 }],
    ['onUnknown', { onUnknown: 'again' }],
    ['onFailure', { onFailure: 'record' }],
    ['codec', { codec: {} }],
    ['resultBytesMax', { resultBytesMax: 0 }],
    ['signal', { signal: {} }],
    ['holder', { holder: '' }],
  ]
  it.each(wrong)('%s: %j', async (option, options) => {
    const world = setUp()
    await expect(world.run(never, options)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option })
    expect(world.sent.begin).toBe(0)
  })

  it('records that are none, and work that is none', async () => {
    const { net } = setUp()
    const options = { key: KEY, fingerprint: FINGERPRINT }
    await expect(onceResult({} as never, options, never)).rejects.toMatchObject({ option: 'records' })
    await expect(onceResult(net, options, undefined as never)).rejects.toMatchObject({ option: 'work' })
    await expect(onceResult(net, null as never, never)).rejects.toMatchObject({ option: 'options' })
  })
})

it('durations above the longest timer neither fire at once nor flood the store (C02)', async () => {
  const warned = vi.spyOn(process, 'emitWarning')
  const world = setUp()
  const { work, end } = held<number>()
  const longMs = 40 * 86_400_000
  const first = world.run(work, { ttlMs: longMs, retentionMs: longMs, waitMs: longMs })
  await world.clock.advance(60_000)
  expect(world.sent.extend).toBe(0)
  end(1)
  expect(await first).toBe(1)
  expect(warned).not.toHaveBeenCalled()
  warned.mockRestore()
})
