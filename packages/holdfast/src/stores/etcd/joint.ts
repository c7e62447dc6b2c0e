// Work whose outcome several need, such as an etcd lease that they will share. It has a time of its own, so that one who has little
// fails nobody who joined it; and each waits for it no longer than it can. What was too late for one is begun anew for the next.
import type { Clock } from '../../lease/clock.js'
import type { StoreError } from '../../lease/errors.js'
import type { Limits } from './gateway.js'

export class Joint<Value> {
  /** The outcome, once it is there. */
  value: Value | undefined
  /** It has failed, or somebody's time was over before it came: nobody joins it any more. */
  isOver = false
  readonly #work: Promise<Value>

  constructor(work: Promise<Value>) {
    this.#work = work
    work.then(
      (value) => {
        this.value = value
      },
      () => {
        this.isOver = true
      },
    )
  }

  /** The outcome, or `late` when the time of this caller is over, or its signal aborts. */
  within({ untilMonoMs, signal }: Limits, clock: Clock, late: () => StoreError): Promise<Value> {
    return new Promise((resolve, reject) => {
      const end = () => {
        if (signal?.aborted !== true) this.isOver = true
        done()
        reject(late())
      }
      const timer = clock.setTimer(Math.max(0, untilMonoMs - clock.monoMs()), end)
      const done = () => {
        timer.cancel()
        signal?.removeEventListener('abort', end)
      }
      signal?.addEventListener('abort', end, { once: true })
      this.#work.finally(done).then(resolve, reject)
    })
  }
}
