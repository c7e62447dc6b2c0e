// Operations of one process that are asked for in the same turn share one script call: a thousand acquires cost as many
// commands as ten. An operation that is alone is sent at the end of the turn, as it would be anyway.

/** So many operations share a script call at most: about half a ms of the server's time. */
export const SHARED_MAX = 128

interface Waiting<Op, Answer> {
  readonly op: Op
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/** One verb's operations. */
export class Shared<Op, Answer> {
  readonly #send: (ops: readonly Op[]) => Promise<readonly Answer[]>
  readonly #groupOf: (op: Op) => string | number
  #waiting: Waiting<Op, Answer>[] = []

  /** `groupOf`: only operations of one group can share a call. */
  constructor(send: (ops: readonly Op[]) => Promise<readonly Answer[]>, groupOf: (op: Op) => string | number) {
    this.#send = send
    this.#groupOf = groupOf
  }

  ask(op: Op): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ op, resolve, reject }) === 1) queueMicrotask(this.#flush)
    })
  }

  readonly #flush = (): void => {
    const waiting = this.#waiting
    this.#waiting = []
    if (waiting.length === 1) {
      this.#sendParts(waiting)
      return
    }
    const groups = new Map<string | number, Waiting<Op, Answer>[]>()
    for (const one of waiting) {
      const group = this.#groupOf(one.op)
      const others = groups.get(group)
      if (others === undefined) groups.set(group, [one])
      else others.push(one)
    }
    for (const group of groups.values()) this.#sendParts(group)
  }

  #sendParts(waiting: readonly Waiting<Op, Answer>[]): void {
    for (let first = 0; first < waiting.length; first += SHARED_MAX) {
      const part = waiting.slice(first, first + SHARED_MAX)
      this.#send(part.map(({ op }) => op)).then(
        (answers) => {
          for (const [i, { resolve }] of part.entries()) resolve(answers[i] as Answer)
        },
        (error) => {
          for (const { reject } of part) reject(error)
        },
      )
    }
  }
}
