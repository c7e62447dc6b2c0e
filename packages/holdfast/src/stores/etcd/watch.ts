// Hints for one who waits. Each watches only who is before it, the holder when nobody is: so a release wakes one, not a herd. Its
// own place is watched too: that its turn has come, and that it has lost its place. Whatever ends the stream (a change of leaders,
// a compaction, a broken connection, silence) is followed by a look, which sees what was missed (G8). Streams that end again and again
// at once, as behind a proxy that knows none, are asked for ever more slowly (C33).
import type { Clock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { Random } from '../../lease/random.js'
import type { Gateway } from './gateway.js'
import { heldBy, lookBefore, placesIn, run } from './key.js'
import type { Names } from './names.js'
import { after, before, get } from './wire.js'

export interface WatchParts {
  readonly gateway: Gateway
  readonly clock: Clock
  readonly random: Random
  readonly names: Names
  readonly claim: string
  readonly signal: AbortSignal
  hint(): void
}

/** A stream that has been silent for so long may be dead: looked after. */
const SILENCE_MS = 30_000
const BACKOFF_MS_MIN = 50
const BACKOFF_MS_MAX = 2_000

interface StreamAnswer {
  readonly result?: {
    readonly created?: boolean
    readonly canceled?: boolean
    readonly events?: readonly unknown[]
  }
  readonly error?: unknown
}

/** Runs until the signal aborts. Rejects with what does not pass by itself, such as a lack of rights. */
export async function follow(parts: WatchParts): Promise<void> {
  const { signal, random, clock } = parts
  let failures = 0
  while (!signal.aborted && !parts.gateway.closed) {
    try {
      const around = await lookAround(parts)
      if (signal.aborted) return
      if (around.mayBeFree) parts.hint()
      const sinceMs = clock.monoMs()
      const isChanged = await untilChanged(parts, around)
      if (isChanged || clock.monoMs() - sinceMs > BACKOFF_MS_MAX) failures = 0
      if (isChanged) continue
    } catch (error) {
      if (signal.aborted || parts.gateway.closed) return
      if (error instanceof StoreError && error.lasting) throw error
    }
    const delayMs = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(failures++, 10)) * (0.5 + random.unit() / 2)
    await pause(clock, delayMs, signal)
  }
}

interface Around {
  readonly revision: string
  /** Whose end is waited for. */
  readonly before: string
  readonly mayBeFree: boolean
}

async function lookAround({ gateway, names, claim }: WatchParts): Promise<Around> {
  const limits = gateway.limits(undefined)
  const first = await run(
    gateway,
    'a look',
    { success: [get({ key: names.held }), get({ key: names.waiting(claim) }), lookBefore(names, undefined)] },
    limits,
  )
  const own = first.responses?.[1]?.response_range?.kvs?.[0]
  let answer = first
  let [newest] = placesIn(first.responses?.[2])
  if (own !== undefined) {
    const place = before(own.create_revision ?? '1')
    answer = await run(gateway, 'a look', { success: [get({ key: names.held }), lookBefore(names, place)] }, limits)
    newest = placesIn(answer.responses?.[1])[0]
  }
  const held = heldBy(answer.responses?.[0]?.response_range?.kvs?.[0])
  return {
    revision: answer.header?.revision ?? '0',
    before: newest?.kv.key ?? names.held,
    mayBeFree: held === undefined && newest === undefined,
  }
}

/** Resolves when a look is called for: true when something has happened, false when the stream has ended, or was silent for long. */
async function untilChanged(
  { gateway, names, claim, clock, signal, hint }: WatchParts,
  around: Around,
): Promise<boolean> {
  const start_revision = after(around.revision)
  const creates = [
    { key: around.before, start_revision, filters: ['NOPUT'] },
    { key: names.waiting(claim), start_revision },
  ]
  const body = creates.map((create) => JSON.stringify({ create_request: create })).join('\n')
  const ending = new AbortController()
  const end = () => ending.abort()
  signal.addEventListener('abort', end, { once: true })
  const timer = clock.setTimer(SILENCE_MS, end)
  timer.keepAlive(false)
  try {
    for await (const line of gateway.stream('a watch', '/v3/watch', body, ending.signal)) {
      const { result, error } = line as StreamAnswer
      if (error !== undefined || result?.canceled === true) return false
      for (const event of result?.events ?? []) {
        const { type, kv } = event as {
          type?: string
          kv?: { key?: string; create_revision?: string; mod_revision?: string }
        }
        const isOwn = kv?.key === names.waiting(claim)
        if (!isOwn) return true // who was before is gone
        if (type === 'DELETE' || kv?.create_revision !== kv?.mod_revision)
          hint() // it lost its place; its turn has come
        else return true // it has joined: somebody else is before it now
      }
    }
    return false
  } finally {
    timer.cancel()
    signal.removeEventListener('abort', end)
    ending.abort()
  }
}

const pause = (clock: Clock, ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = clock.setTimer(ms, () => {
      signal.removeEventListener('abort', stop)
      resolve()
    })
    timer.keepAlive(false)
    const stop = () => {
      timer.cancel()
      resolve()
    }
    signal.addEventListener('abort', stop, { once: true })
  })
