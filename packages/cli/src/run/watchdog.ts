// The watchdog: a process of its own between the holder of a lease and the command that runs under it. It starts the command
// in a process group of its own, so there is no moment in which the command runs unwatched, and ends that group when
//   - the deadline that it was last told passes (the holder is stopped, or cannot renew),
//   - the pipe to the holder ends (the holder was killed), or
//   - the holder asks for it (the lease is lost).
// SIGTERM first; SIGKILL `graceMs` later, and never later than `graceMs` after the deadline: before the store would let
// another in. It has a session of its own: neither Ctrl-C, Ctrl-Z nor a signal to the holder's group reaches it.
import { type ChildProcess, spawn } from 'node:child_process'
import { messageOf } from '../exit.js'
import { isGroupGone, signalGroup } from './group.js'
import { earlier, type Instant, later, now, untilMs } from './instants.js'
import type { EndedBy, FromWatchdog, ToWatchdog } from './messages.js'

/** How often both clocks are compared: after a freeze of the whole machine the command dies within this and a moment. */
const LOOK_EVERY_MS = 250

/** How often a group that is about to go is looked at. */
const LOOK_AT_GROUP_EVERY_MS = 25

interface Watched {
  readonly key: string
  readonly pgid: number
  readonly graceMs: number
  deadline: Instant
  /** Set from SIGTERM on. */
  ending: { readonly by: EndedBy; readonly killAt: Instant; killed: boolean } | null
  exit: Exit | null
}

interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

let watched: Watched | null = null
let timer: NodeJS.Timeout | undefined
let holderLives = true

// The holder is in charge of signals. It may stop, it may die: this process ends when the command has.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)
  process.on(signal, () => {})
// A terminal that went away must not end the watch.
process.stderr.on('error', () => {})
process.stdout.on('error', () => {})

process.on('message', (message: ToWatchdog) => {
  if (message.is === 'start') start(message)
  else if (watched === null) return
  else if (message.is === 'deadline') watched.deadline = message.deadline
  else end(watched, 'request')
  look()
})

process.on('disconnect', () => {
  holderLives = false
  if (watched === null) process.exit()
  end(watched, 'holder')
  look()
})

tell({ is: 'ready', at: now() })

function start({ command, key, deadline, graceMs }: Extract<ToWatchdog, { is: 'start' }>): void {
  const refuse = (why: 'late' | 'not found' | 'not executable', message: string) =>
    tell({ is: 'not started', why, message })
  if (untilMs(deadline, now()) <= 0) {
    refuse('late', 'its deadline had passed')
    return
  }
  let child: ChildProcess
  try {
    const env = { ...process.env, ...command.env }
    child = spawn(command.file, command.args, { detached: true, stdio: 'inherit', env })
  } catch (error) {
    refuse('not executable', messageOf(error))
    return
  }
  child.on('error', (error: NodeJS.ErrnoException) => {
    if (child.pid !== undefined) return // it runs: the error is about a signal or a message, of which we send none
    refuse(error.code === 'ENOENT' ? 'not found' : 'not executable', error.code ?? error.message)
  })
  if (child.pid === undefined) return
  const mine: Watched = { key, pgid: child.pid, graceMs, deadline, ending: null, exit: null }
  watched = mine
  child.on('exit', (code, signal) => {
    mine.exit = { code, signal }
    look()
    if (watched !== null) tell({ is: 'exited' })
  })
  tell({ is: 'started', pgid: child.pid })
}

/** Looks at the clocks and at the group, does what is due, and sets the timer for the next look. */
function look(): void {
  clearTimeout(timer)
  if (watched === null) return
  if (watched.exit !== null && isGroupGone(watched.pgid)) {
    gone(watched, watched.exit)
    return
  }
  if (untilMs(watched.deadline, now()) <= 0) end(watched, 'deadline')
  const { ending, exit } = watched
  if (ending !== null && !ending.killed && untilMs(ending.killAt, now()) <= 0) {
    ending.killed = true
    signalGroup(watched.pgid, 'SIGKILL')
  }
  const due = ending === null ? watched.deadline : ending.killAt
  const every = exit === null ? LOOK_EVERY_MS : LOOK_AT_GROUP_EVERY_MS
  timer = setTimeout(look, ending?.killed ? LOOK_AT_GROUP_EVERY_MS : Math.max(0, Math.min(every, untilMs(due, now()))))
}

function end(mine: Watched, by: EndedBy): void {
  if (mine.ending !== null) return
  const at = now()
  const killAt = later(earlier(mine.deadline, at), mine.graceMs)
  // After a freeze there may be no time left to be polite: the store may have let another in.
  const killed = untilMs(killAt, at) <= 0
  mine.ending = { by, killAt, killed }
  if (killed) signalGroup(mine.pgid, 'SIGKILL')
  else {
    signalGroup(mine.pgid, 'SIGTERM')
    // A stopped process acts on SIGTERM only when it goes on.
    signalGroup(mine.pgid, 'SIGCONT')
  }
  if (by === 'holder') say(`the process that held ${JSON.stringify(mine.key)} is gone: its command was told to end`)
  if (by === 'deadline')
    say(`the lease on ${JSON.stringify(mine.key)} was not renewed in time: its command was told to end`)
}

function gone(mine: Watched, exit: Exit): void {
  watched = null
  tell({ is: 'gone', ...exit, endedBy: mine.ending?.by ?? null }, () => process.exit())
}

function tell(message: FromWatchdog, then: () => void = () => {}): void {
  if (holderLives && process.send !== undefined) process.send(message, undefined, {}, () => then())
  else then()
}

function say(text: string): void {
  process.stderr.write(`holdfast: ${text}\n`)
}
