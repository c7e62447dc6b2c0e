// What a history of processes must show, judged after the fact from what they said: pure functions, so that their own tests
// can hand them histories that are wrong.
import type { Said } from './harness.js'

/** A stretch of time, on the clock that all processes share, at whose both ends a process was seen believing. */
export interface Term {
  readonly term: string
  readonly token: number
  readonly holder: string
  readonly fromUs: number
  readonly untilUs: number
}

/** A grant: asked at one instant, answered at a later one. */
export interface Grant {
  readonly granted: string
  readonly token: number
  readonly holder: string
  readonly askedUs: number
  readonly answeredUs: number
}

/** A write to a register, in the order in which the database committed them. */
export interface Written {
  readonly register: string
  readonly token: number
  readonly holder: string
}

export const termsOf = (said: readonly Said[]): Term[] => said.filter((line) => 'term' in line) as unknown as Term[]
export const grantsOf = (said: readonly Said[]): Grant[] =>
  said.filter((line) => 'granted' in line) as unknown as Grant[]

/** Pairs that believed at once (G5): none, while clocks keep their rates. */
export function believedAtOnce(terms: readonly Term[]): string[] {
  const sorted = [...terms].sort((a, b) => a.fromUs - b.fromUs)
  const wrong: string[] = []
  let longest: Term | undefined
  for (const term of sorted) {
    if (longest !== undefined && term.fromUs < longest.untilUs && term.token !== longest.token) {
      const overlapMs = (Math.min(longest.untilUs, term.untilUs) - term.fromUs) / 1000
      wrong.push(
        `${longest.holder} (${longest.token}) and ${term.holder} (${term.token}) for ${overlapMs.toFixed(3)} ms`,
      )
    }
    if (longest === undefined || term.untilUs > longest.untilUs) longest = term
  }
  return wrong
}

/** Grants whose tokens do not rise in the order of time (G2): none. Grants under way at once may come in either order. */
export function tokensThatFell(grants: readonly Grant[]): string[] {
  const byToken = [...grants].sort((a, b) => a.token - b.token)
  const wrong: string[] = []
  // In the order of their tokens: each must have been answered after every smaller one was asked.
  let latest: Grant | undefined
  for (const grant of byToken) {
    if (latest !== undefined && grant.token === latest.token) wrong.push(`${grant.token} was granted twice`)
    if (latest !== undefined && grant.answeredUs < latest.askedUs)
      wrong.push(`${grant.token} was granted before ${latest.token} was asked for`)
    if (latest === undefined || grant.askedUs > latest.askedUs) latest = grant
  }
  return wrong
}

/** Writes that replaced one of a bigger token: none in a fenced register (G7). */
export function overwritten(writes: readonly Written[], register: string): string[] {
  const wrong: string[] = []
  let biggest: Written | undefined
  for (const write of writes) {
    if (write.register !== register) continue
    if (biggest !== undefined && write.token < biggest.token)
      wrong.push(`${write.holder} (${write.token}) after ${biggest.holder} (${biggest.token})`)
    if (biggest === undefined || write.token > biggest.token) biggest = write
  }
  return wrong
}
