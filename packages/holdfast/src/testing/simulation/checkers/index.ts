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
} as const

/** All that is wrong with a history. */
export function check(history: History): Violation[] {
  return Object.values(checkers).flatMap(
    (checker: (history: History) => Violation | undefined) => checker(history) ?? [],
  )
}
