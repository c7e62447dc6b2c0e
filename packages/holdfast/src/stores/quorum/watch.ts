// The hints of all nodes as one stream. A release reaches the nodes one after the other, and a vote that is taken back frees a
// minority only: so a hint is passed on when a majority has hinted, or a moment after the first (G8: hints may come late).
import type { WatchOptions } from '../../store/contract.js'
import type { Quorum } from './quorum.js'

const SETTLE_MS = 50

export async function* watch(quorum: Quorum, key: string, { claim, signal }: WatchOptions): AsyncGenerator<void> {
  const { nodes, majority, clock } = quorum
  const ending = new AbortController()
  const end = () => ending.abort()
  const hinted = new Set<number>()
  let pending = false
  let running = 0
  let failed = 0
  let cause: unknown
  let wake: (() => void) | undefined
  const timer = { set: undefined as ReturnType<typeof clock.setTimer> | undefined }

  const pass = () => {
    timer.set?.cancel()
    timer.set = undefined
    hinted.clear()
    pending = true
    wake?.()
  }
  const hint = (place: number) => {
    hinted.add(place)
    if (hinted.size >= Math.min(majority, running)) pass()
    else if (timer.set === undefined) {
      timer.set = clock.setTimer(SETTLE_MS, pass)
      timer.set.keepAlive(false)
    }
  }
  const listen = async (place: number) => {
    const hints = nodes[place]?.store.watch?.(key, { claim, signal: ending.signal })
    if (hints === undefined) return
    try {
      for await (const _ of hints) hint(place)
    } catch (error) {
      failed++
      cause = error
    }
    running--
    wake?.()
  }

  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  try {
    const watched = nodes.filter(({ store }) => store.watch !== undefined)
    running = watched.length
    for (const { place } of watched) void listen(place)
    while (!signal.aborted) {
      if (pending) {
        pending = false
        yield
        continue
      }
      // Too few are left: the watcher had better begin anew. Without a failure the nodes were closed.
      if (failed > 0 && running < Math.min(majority, watched.length)) throw cause
      if (running === 0) return
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  } finally {
    signal.removeEventListener('abort', end)
    timer.set?.cancel()
    end()
  }
}
