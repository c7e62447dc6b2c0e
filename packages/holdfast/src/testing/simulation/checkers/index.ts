// The checkers, one a guarantee: functions from a history to the first violation that they find.
import type { History, Violation } from '../history.js'
import { belief } from './belief.js'
import { contenders } from './contenders.js'
import { exclusion } from './exclusion.js'
import { expiry } from './expiry.js'
import { fence } from './fence.js'
import { ghosts } from './ghosts.js'
import { order } from './order.js'
import { outcomes } from './outcomes.js'
import { quiet } from './quiet.js'
import { majority, rising, turns } from './quorum.js'
import { repeats } from './repeats.js'
import { tokens } from './tokens.js'
import { told } from './told.js'
import { waiting } from './waiting.js'

/** Every checker by its name. */
export const checkers = {
  exclusion,
  tokens,
  repeats,
  expiry,
  belief,
  told,
  ghosts,
  fence,
  waiting,
  order,
  contenders,
  quiet,
  outcomes,
  majority,
  turns,
  rising,
} as const

/** Those that know of no store: what they say of callers holds over a quorum as well. */
const OVER_ANY_STORE: readonly (keyof typeof checkers)[] = [
  'fence',
  'order',
  'quiet',
  'outcomes',
  'majority',
  'turns',
  'rising',
]

/** All that is wrong with a history. */
export function check(history: History): Violation[] {
  return Object.entries(checkers).flatMap(([name, checker]) => {
    if (history.decides !== 'store' && !(OVER_ANY_STORE as readonly string[]).includes(name)) return []
    return (checker as (history: History) => Violation | undefined)(history) ?? []
  })
}
