// All cases, in the order of the guarantees.
import type { ConformanceCase } from './case.js'
import { exclusion } from './exclusion.js'
import { expiry } from './expiry.js'
import { failures } from './failures.js'
import { ghosts } from './ghosts.js'
import { handover } from './handover.js'
import { names } from './names.js'
import { queue } from './queue.js'
import { records } from './records.js'
import { renewals } from './renewals.js'
import { repeats } from './repeats.js'
import { revocation } from './revocation.js'
import { tokens } from './tokens.js'
import { turns } from './turns.js'
import { watching } from './watching.js'
import { withdrawal } from './withdrawal.js'

/** What a store has to do, as data: one entry for each demand of the contract. */
export const conformance: readonly ConformanceCase[] = [
  ...exclusion,
  ...tokens,
  ...repeats,
  ...expiry,
  ...renewals,
  ...withdrawal,
  ...handover,
  ...revocation,
  ...queue,
  ...ghosts,
  ...watching,
  ...turns,
  ...names,
  ...records,
  ...failures,
]
