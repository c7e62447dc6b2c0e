// Every interleaving of a small model, breadth first, so that the first way found to break a rule is a shortest one. States are
// told apart by their whole text: nothing is hashed, nothing is missed within the bounds that a model sets itself.

export interface Model<State> {
  readonly start: State
  /** A text that two states share only if they are the same. */
  key(state: State): string
  /** Gives every state that can come next, with what happens on the way; `broken` reports a step that breaks a rule. */
  next(state: State, to: (what: string, next: State) => void, broken: (rule: string, why: string) => void): void
  /** Rules that a state breaks. */
  check(state: State, broken: (rule: string, why: string) => void): void
}

export interface Explored {
  readonly states: number
  readonly steps: number
  /** How many steps the farthest state is away from the start. */
  readonly depth: number
  /** Each rule that can be broken, with a shortest way to it. */
  readonly broken: ReadonlyMap<string, { readonly why: string; readonly way: readonly string[] }>
}

interface Node<State> {
  /** Gone once all that comes next is known. */
  state: State | undefined
  readonly from: Node<State> | undefined
  readonly what: string
  readonly depth: number
}

/** Explores all of it; or, with `until`, until one of the rules named is found broken. Throws above `statesMax`. */
export function explore<State>(
  model: Model<State>,
  { statesMax = 2_000_000, until = [] as readonly string[] } = {},
): Explored {
  const seen = new Set<string>()
  const queue: Node<State>[] = []
  const broken = new Map<string, { why: string; way: string[] }>()
  let steps = 0
  let depth = 0

  const report = (node: Node<State>, rule: string, why: string, last?: string) => {
    if (!broken.has(rule)) broken.set(rule, { why, way: [...wayTo(node), ...(last === undefined ? [] : [last])] })
  }
  const visit = (state: State, from: Node<State> | undefined, what: string) => {
    const key = model.key(state)
    if (seen.has(key)) return
    seen.add(key)
    if (seen.size > statesMax) throw new Error(`more than ${statesMax} states`)
    const node = { state, from, what, depth: from === undefined ? 0 : from.depth + 1 }
    depth = Math.max(depth, node.depth)
    model.check(state, (rule, why) => report(node, rule, why))
    queue.push(node)
  }

  visit(model.start, undefined, '')
  for (let node = queue[0], i = 0; node !== undefined; node = queue[++i]) {
    const here = node
    const { state } = here
    if (state === undefined) throw new Error('explored twice')
    here.state = undefined
    let pending: [string, string][] = []
    model.next(
      state,
      (what, next) => {
        steps++
        for (const [rule, why] of pending) report(here, rule, why, what)
        pending = []
        visit(next, here, what)
      },
      (rule, why) => pending.push([rule, why]),
    )
    if (until.some((rule) => broken.has(rule))) break
  }
  return { states: seen.size, steps, depth, broken }
}

function wayTo<State>(node: Node<State>): string[] {
  const way: string[] = []
  for (let at: Node<State> | undefined = node; at?.from !== undefined; at = at.from) way.push(at.what)
  return way.reverse()
}
