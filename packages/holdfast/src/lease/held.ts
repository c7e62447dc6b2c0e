// What a client holds, in an array in which each lease knows its place. A Set would do, but one that changes with every lease is
// copied again and again, and in V8 a copy that has been left keeps the next one, with all leases in it, from the collector until
// it looks at old objects.

/** One that can be in a collection of this kind: in one at a time. */
export interface Holding {
  /** Its place; -1 when it is in none. */
  heldPlace: number
}

export class Held<T extends Holding> {
  readonly #all: T[] = []

  get size(): number {
    return this.#all.length
  }

  add(one: T): void {
    one.heldPlace = this.#all.push(one) - 1
  }

  /** Harmless when it is not there. */
  delete(one: T): void {
    if (one.heldPlace < 0) return
    const last = this.#all.pop()
    if (last !== undefined && last !== one) {
      this.#all[one.heldPlace] = last
      last.heldPlace = one.heldPlace
    }
    one.heldPlace = -1
  }

  [Symbol.iterator](): IterableIterator<T> {
    return this.#all[Symbol.iterator]()
  }
}
