// The processes `a` and `b` of the demo: ordinary users of the library, each in a process of its own. They do what the director
// asks, one thing at a time.
import { createLeases, type Lease, LeaseHeldError, type Leases, type StoreCapabilities } from 'holdfast'
import { connect } from '../connect.js'
import { messageOf } from '../exit.js'
import type { Cue, Reply, Scene, Written } from './cast.js'
import { type Ask, dial, remoteStore } from './remote-store.js'

let name = ''
let scene: Scene | undefined
let leases: Leases | undefined
let ask: Ask | undefined
let lease: Lease | undefined

process.on('disconnect', () => process.exit())
process.on('message', async (cue: Cue) => {
  let reply: Reply
  try {
    reply = await act(cue)
  } catch (error) {
    reply = { is: 'failed', message: messageOf(error) }
  }
  process.send?.(reply)
})

async function act(cue: Cue): Promise<Reply> {
  switch (cue.do) {
    case 'enter':
      return enter(cue.name, cue.scene)
    case 'acquire':
      return acquire(cue.waitMs)
    case 'check':
      // The check passes, the write is to follow: here the process is frozen. What wakes it is the cue to write.
      mine().assertHeld()
      return { is: 'checked', held: true }
    case 'write':
      return need(ask)<Written>('write', cue.register, `the report of ${name}`, mine().grant)
    case 'look':
      return { is: 'checked', held: mine().held }
    case 'release':
      await mine().release()
      return { is: 'done' }
  }
}

async function enter(as: string, into: Scene): Promise<Reply> {
  name = as
  scene = into
  const connection = await dial(into.socket)
  ask = connection.ask
  const store =
    into.storeUrl === null
      ? remoteStore(ask, connection.socket, await ask<StoreCapabilities>('capabilities'))
      : (await connect({ url: into.storeUrl, isDefault: false })).store
  const { ttlMs } = into
  // A store that is far, or that is reached for the first time, may take longer than the default allows with so short a term.
  leases = createLeases({ store, holder: name, ttlMs, renewEveryMs: ttlMs / 3, callTimeoutMs: ttlMs / 2 })
  return { is: 'done' }
}

async function acquire(waitMs: number): Promise<Reply> {
  const from = performance.now()
  try {
    lease = await need(leases).acquire(need(scene).key, { waitMs })
    return { is: 'granted', token: lease.token, waitedMs: performance.now() - from }
  } catch (error) {
    if (!(error instanceof LeaseHeldError)) throw error
    return { is: 'held', by: error.holder, remainingMs: error.remainingMs }
  }
}

const mine = () => need(lease)

function need<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('the director forgot a cue')
  return value
}
