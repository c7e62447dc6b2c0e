// Operations of one process that are asked for in the same turn share one script call: a thousand acquires cost as many
// commands as ten. An operation that is alone is sent at the end of the turn, as it would be anyway.

import { isMoving } from './failure.js'
import { each } from './reply.js'

/** So many operations share a script call at most: about half a ms of the server's time. */
export const SHARED_MAX = 128
/** So many of those for which a caller waits: the server works on one part while this process makes the next, and reads the last. */
export const SHARED_AT_ONCE_MAX = 32
/** After a call was refused since its slot is on the move, that slot's operations go one by one so many times. */
const APART_TIMES = 32
/** What waits for the end of the turn waits for this: in Node it takes less than half the time of `queueMicrotask`. */
const TURN = Promise.resolve()

/** How operations of one verb share calls. */
export interface SharedOptions<Op, Answer> {
  /** Asks the server. Gives the reply to all. */
  send(ops: readonly Op[]): Promise<unknown>
  /** The answer to one, from its part of the reply. What it throws, its caller gets. */
  read(op: Op, reply: unknown): Answer
  /** Only operations of one group can share a call. */
  groupOf(op: Op): string | number
  /** Whether two are certainly of one group, where that is cheaper to see than the name of the group. */
  alike?(one: Op, other: Op): boolean
  /** So many share a call at most. */
  readonly most: number
}

interface Waiting<Op, Answer> {
  readonly op: Op
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/** One verb's operations. */
export class Shared<Op, Answer> {
  readonly #options: SharedOptions<Op, Answer>
  #waiting: Waiting<Op, Answer>[] = []
  /** Groups whose keys are on two nodes at this time, and how often yet they do not share a call. */
  readonly #apart = new Map<string | number, number>()

  constructor(options: SharedOptions<Op, Answer>) {
    this.#options = options
  }

  /** The answer to this operation. */
  ask(op: Op): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ op, resolve, reject }) === 1) void TURN.then(this.#flush)
    })
  }

  readonly #flush = (): void => {
    const waiting = this.#waiting
    this.#waiting = []
    const [first] = waiting
    if (first === undefined) return
    if (waiting.length === 1) this.#sendPart(waiting)
    else if (this.#areAlike(first.op, waiting)) this.#sendParts(waiting, this.#options.groupOf(first.op))
    else {
      const groups = new Map<string | number, Waiting<Op, Answer>[]>()
      for (const one of waiting) {
        const group = this.#options.groupOf(one.op)
        const others = groups.get(group)
        if (others === undefined) groups.set(group, [one])
        else others.push(one)
      }
      for (const [name, group] of groups) this.#sendParts(group, name)
    }
  }

  #areAlike(first: Op, waiting: readonly Waiting<Op, Answer>[]): boolean {
    const { alike } = this.#options
    if (alike === undefined) return false
    for (const { op } of waiting) if (!alike(first, op)) return false
    return true
  }

  #sendParts(group: readonly Waiting<Op, Answer>[], name: string | number): void {
    const size = this.#isApart(name) ? 1 : this.#options.most
    if (group.length <= size) this.#sendPart(group, name)
    else for (let at = 0; at < group.length; at += size) this.#sendPart(group.slice(at, at + size), name)
  }

  #isApart(name: string | number): boolean {
    const times = this.#apart.get(name)
    if (times === undefined) return false
    if (times > 1) this.#apart.set(name, times - 1)
    else this.#apart.delete(name)
    return true
  }

  #sendPart(part: readonly Waiting<Op, Answer>[], name: string | number = 0): void {
    this.#options.send(part.map(({ op }) => op)).then(
      (reply) => {
        const replies = each(reply, part.length)
        for (let i = 0; i < part.length; i++) this.#answer(part[i] as Waiting<Op, Answer>, replies[i])
      },
      (error) => {
        if (part.length > 1 && isMoving(error)) {
          this.#apart.set(name, APART_TIMES)
          for (const one of part) this.#sendPart([one])
        } else for (const { reject } of part) reject(error)
      },
    )
  }

  #answer(one: Waiting<Op, Answer>, reply: unknown): void {
    try {
      one.resolve(this.#options.read(one.op, reply))
    } catch (error) {
      one.reject(error)
    }
  }
}
