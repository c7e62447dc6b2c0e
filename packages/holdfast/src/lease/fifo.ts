// First in, first out, with leaving from anywhere in one step: a thousand waiters that give up must not cost a thousand walks.

/** A place in the line. */
export interface Place<T> {
  readonly value: T
  before: Place<T> | undefined
  after: Place<T> | undefined
  inLine: boolean
}

export class Fifo<T> {
  #first: Place<T> | undefined
  #last: Place<T> | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  push(value: T): Place<T> {
    const place: Place<T> = { value, before: this.#last, after: undefined, inLine: true }
    if (this.#last === undefined) this.#first = place
    else this.#last.after = place
    this.#last = place
    this.#size++
    return place
  }

  shift(): T | undefined {
    const place = this.#first
    if (place === undefined) return undefined
    this.remove(place)
    return place.value
  }

  remove(place: Place<T>): void {
    if (!place.inLine) return
    place.inLine = false
    if (place.before === undefined) this.#first = place.after
    else place.before.after = place.after
    if (place.after === undefined) this.#last = place.before
    else place.after.before = place.before
    this.#size--
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let place = this.#first; place !== undefined; place = place.after) yield place.value
  }
}
