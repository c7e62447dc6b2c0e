// All faults, in the order of the table.
import type { Fault } from '../fault.js'
import { evenSplit } from './even-split.js'
import { hung, hungWithTimeout } from './hung.js'
import { hungNode } from './hung-node.js'
import { longWork } from './long-work.js'
import { lostReply } from './lost-reply.js'
import { lostUnderWork } from './lost-under-work.js'
import { rejectedRenewal } from './rejected-renewal.js'
import { shortTtl } from './short-ttl.js'
import { slowAcquire } from './slow-acquire.js'

export const faults: readonly Fault[] = [
  lostReply,
  slowAcquire,
  hung,
  hungWithTimeout,
  rejectedRenewal,
  shortTtl,
  longWork,
  lostUnderWork,
  hungNode,
  evenSplit,
]
