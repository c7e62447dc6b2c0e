// A process group: what `run` signals, and whose end it waits for. Only POSIX systems have them.
import { readdirSync, readFileSync } from 'node:fs'

/** Signals every process of the group. False when none is left. */
export function signalGroup(pgid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pgid, signal)
    return true
  } catch (error) {
    // EPERM: there are some, but they run as another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Whether no process of the group can run any more. A zombie cannot: where process 1 reaps late or never, as in some
 * containers, orphans of the group stay zombies, and a signal still reaches them.
 */
export function isGroupGone(pgid: number): boolean {
  if (!signalGroup(pgid, 0)) return true
  if (process.platform !== 'linux') return false
  try {
    process.kill(-pgid, 0)
    return !readdirSync('/proc').some((name) => /^\d+$/.test(name) && livesInGroup(name, pgid))
  } catch {
    return !signalGroup(pgid, 0)
  }
}

function livesInGroup(pid: string, pgid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // pid (name) state ppid pgrp …: the name may hold spaces and brackets of its own.
    const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return Number(group) === pgid && state !== 'Z' && state !== 'X'
  } catch {
    return false // it went away meanwhile
  }
}
