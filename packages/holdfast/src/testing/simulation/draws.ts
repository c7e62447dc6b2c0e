// Chance, drawn from a name instead of from one shared stream: the fate of a message depends on the seed, its sender, its verb
// and its number, and on nothing else. So leaving an item out of a plan disturbs little of what happens to the others, which
// is what makes shrinking work. Only integer arithmetic: every engine draws alike.

/** A short stream of random numbers that belongs to one name. */
export class Draws {
  #state: number

  constructor(...name: readonly (string | number)[]) {
    this.#state = hash(name.join('|'))
  }

  /** From 0 to just below 1 (the generator mulberry32). */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  chance(probability: number): boolean {
    return this.unit() < probability
  }

  between(least: number, most: number): number {
    return least + (most - least) * this.unit()
  }

  /** A whole number, both ends included. */
  whole(least: number, most: number): number {
    return least + Math.floor((most - least + 1) * this.unit())
  }

  pick<T>(list: readonly T[]): T {
    const picked = list[this.whole(0, list.length - 1)]
    if (picked === undefined) throw new Error('nothing to pick from')
    return picked
  }

  /** One of the names, as often as their weights say. */
  weighted<Name extends string>(weights: Partial<Record<Name, number>>): Name {
    const entries = Object.entries(weights) as [Name, number][]
    let left = this.unit() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) {
      left -= weight
      if (left < 0) return name
    }
    const last = entries.at(-1)
    if (last === undefined) throw new Error('nothing to pick from')
    return last[0]
  }
}

/** FNV-1a over the text, then mixed so that near names give far apart numbers. */
export function hash(text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return (value ^ (value >>> 16)) | 0
}
