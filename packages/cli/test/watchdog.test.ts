// The watchdog and the process group by themselves: what `holdfast run` shows only in moments that no test can hit.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Guard } from '../dist/run/guard.js'
import { isGroupGone, signalGroup } from '../src/run/group.js'
import { earlier, type Instant, later, now, untilMs } from '../src/run/instants.js'
import { lives, place, waitUntil } from './harness.js'

const guard = () => Guard.start({ key: 'k', graceMs: 200, onExited: () => {} })

describe('the watchdog', () => {
  it.each<[string, (at: Instant) => Instant]>([
    ['both clocks', (at) => later(at, -1)],
    ['the monotonic clock', (at) => ({ ...later(at, 60_000), monoMs: at.monoMs - 1 })],
    ['the wall clock', (at) => ({ ...later(at, 60_000), wallMs: at.wallMs - 1 })],
  ])('does not start a command whose deadline has passed by %s', async (_, deadline) => {
    const at = place()
    const command = { file: 'touch', args: [at.file('ran')], env: {} }
    expect(await (await guard()).run(command, deadline(now()))).toMatchObject({ is: 'not started', why: 'late' })
    expect(existsSync(at.file('ran'))).toBe(false)
  })

  it.each<[string, (at: Instant) => Instant]>([
    ['the monotonic clock', (at) => ({ monoMs: at.monoMs + 1_000, wallMs: at.wallMs + 60_000 })],
    ['the wall clock', (at) => ({ monoMs: at.monoMs + 60_000, wallMs: at.wallMs + 1_000 })],
  ])('ends the command at its deadline by %s', async (_, deadline) => {
    const { env } = place()
    const command = { file: 'sleep', args: ['600'], env: { ...env } as Record<string, string> }
    const started = await (await guard()).run(command, deadline(now()))
    if (started.is !== 'started') throw new Error('it did not start')
    expect(await started.gone).toMatchObject({ signal: 'SIGTERM', endedBy: 'deadline' })
  })

  it('goes by the last deadline that it was told, and ends with its command', async () => {
    const at = place()
    const watch = await guard()
    const command = {
      file: 'sh',
      args: ['-c', 'while [ ! -e go ]; do sleep 0.01; done; exit 6'].map((arg) => arg.replace('go', at.file('go'))),
      env: { ...at.env } as Record<string, string>,
    }
    const first = later(now(), 1_500)
    const started = await watch.run(command, first)
    if (started.is !== 'started') throw new Error('it did not start')
    watch.renewed(later(now(), 60_000))
    await waitUntil('the first deadline has passed', () => untilMs(first, now()) < -500)
    expect(lives(started.pgid)).toBe(true)
    await at.spawn('touch', ['go']).ended
    expect(await started.gone).toMatchObject({ code: 6, signal: null, endedBy: null })
  })
})

describe('a process group', () => {
  it('of which only a zombie is left is gone: nobody may ever reap it', async () => {
    // With job control the job has a group of its own; the shell becomes a program that reaps nobody.
    const shell = spawn('bash', ['-c', 'set -m; sleep 0.3 & echo $!; exec sleep 600'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    try {
      let text = ''
      shell.stdout.on('data', (data: Buffer) => {
        text += data
      })
      const pgid = await waitUntil('it tells the group', () => (text.includes('\n') ? Number(text) : undefined))
      await waitUntil('the job has ended', () => !lives(pgid))
      expect(signalGroup(pgid, 0)).toBe(true)
      expect(isGroupGone(pgid)).toBe(true)
    } finally {
      shell.kill('SIGKILL')
    }
  })

  it('that runs is not gone, nor one that is stopped', async () => {
    const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' })
    const pgid = child.pid ?? 0
    try {
      expect(isGroupGone(pgid)).toBe(false)
      signalGroup(pgid, 'SIGSTOP')
      expect(isGroupGone(pgid)).toBe(false)
    } finally {
      signalGroup(pgid, 'SIGKILL')
    }
    await waitUntil('it is gone', () => isGroupGone(pgid))
    await waitUntil('it is reaped', () => child.signalCode !== null)
    expect(signalGroup(pgid, 'SIGTERM')).toBe(false)
  })
})

describe('an instant', () => {
  it('is reached when either clock says so', () => {
    const at = { monoMs: 1_000, wallMs: 5_000 }
    expect(untilMs(later(at, 100), { monoMs: 1_050, wallMs: 5_000 })).toBe(50)
    expect(untilMs(later(at, 100), { monoMs: 1_000, wallMs: 5_200 })).toBe(-100)
    expect(earlier(at, { monoMs: 900, wallMs: 6_000 })).toEqual({ monoMs: 900, wallMs: 5_000 })
  })
})
