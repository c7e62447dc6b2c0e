// Two `holdfast run` on one key never overlap, whatever becomes of the processes of the first. Each command writes its token to
// a file, over and over: tokens in turns would be two at once.
import { existsSync } from 'node:fs'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { beating, lives, type Place, place, type Running, tokensInTurn, waitUntil } from './harness.js'

const TTL = ['--ttl', '3s'] as const

/** The processes of one `holdfast run` that holds. */
interface Holding {
  readonly run: Running
  readonly watchdog: number
  readonly command: number
}

/** Starts a run whose command writes its token, and waits until it does. */
async function hold(at: Place, how: { stubborn?: boolean; busy?: boolean } = {}): Promise<Holding> {
  const before = at.lines('beats').length
  const run = at.start('run', 'k', ...TTL, '--wait', '1m', '--', ...beating(how))
  await waitUntil('it writes', () => at.lines('beats').length > before)
  const watchdog =
    at.processes().find(({ ppid, command }) => ppid === run.pid && command.includes('watchdog'))?.pid ?? 0
  const command = at.processes().find(({ ppid }) => ppid === watchdog)?.pid ?? 0
  expect(watchdog).toBeGreaterThan(0)
  expect(command).toBeGreaterThan(0)
  return { run, watchdog, command }
}

const next = (at: Place) =>
  at.start(
    'run',
    'k',
    ...TTL,
    '--wait',
    '1m',
    '--',
    'sh',
    '-c',
    'for i in 1 2 3 4 5; do echo "$HOLDFAST_TOKEN" >> beats; sleep 0.01; done',
  )

describe('no overlap', () => {
  it.each([
    ['that obeys SIGTERM', false],
    ['that ignores SIGTERM', true],
  ])('when the holder is stopped past its ttl, with a command %s', async (_, stubborn) => {
    const at = place()
    const { run, command } = await hold(at, { stubborn })
    run.kill('SIGSTOP')
    const second = next(at)
    expect((await second.ended).code).toBe(0)
    expect(lives(command)).toBe(false)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
    run.kill('SIGCONT')
    const first = await run.ended
    expect(first.code).toBe(79)
    expect(first.stderr).toContain('was not renewed in time')
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
  })

  it.each([
    ['that obeys SIGTERM', false],
    ['that ignores SIGTERM', true],
  ])('when the holder is killed with -9, with a command %s', async (_, stubborn) => {
    const at = place()
    const { run, command, watchdog } = await hold(at, { stubborn })
    run.kill('SIGKILL')
    await waitUntil('the command has died', () => !lives(command))
    await waitUntil('the watchdog has ended', () => !lives(watchdog))
    expect(run.stderr()).toContain('the process that held "k" is gone')
    expect((await next(at).ended).code).toBe(0)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
  })

  it('when everything is frozen together past the ttl: the command dies within a second of the thaw', async () => {
    const at = place()
    const { run, watchdog, command } = await hold(at, { stubborn: true, busy: true })
    for (const pid of [run.pid, watchdog]) process.kill(pid, 'SIGSTOP')
    process.kill(-command, 'SIGSTOP')
    expect((await next(at).ended).code).toBe(0) // by its clock the store has let another in
    process.kill(watchdog, 'SIGCONT')
    await waitUntil('the command has died', () => !lives(command), 5_000)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
    process.kill(run.pid, 'SIGCONT')
    expect((await run.ended).code).toBe(79)
  })

  it('when the watchdog is killed: the holder ends the command, and says so', async () => {
    const at = place()
    const { run, watchdog, command } = await hold(at, { stubborn: true })
    process.kill(watchdog, 'SIGKILL')
    const first = await run.ended
    expect(first.code).toBe(70)
    expect(first.stderr).toContain('the watchdog process was killed')
    expect(lives(command)).toBe(false)
    expect((await next(at).ended).code).toBe(0)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
  })

  it('when the watchdog is stopped and the lease is lost: the holder kills the command', async () => {
    const at = place()
    const { run, watchdog, command } = await hold(at, { stubborn: true })
    process.kill(watchdog, 'SIGSTOP')
    expect((await at.holdfast('revoke', 'k')).code).toBe(0)
    await waitUntil('the command has died', () => !lives(command))
    expect((await next(at).ended).code).toBe(0)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
    process.kill(watchdog, 'SIGCONT')
    expect((await run.ended).code).toBe(79)
  })

  it('when the lease is revoked, also with a command that makes light of it', async () => {
    const at = place()
    const run = at.start(
      'run',
      'k',
      '--ttl',
      '6s',
      '--',
      'sh',
      '-c',
      'trap "exit 0" TERM; touch started; while :; do sleep 0.01; done',
    )
    await waitUntil('it runs', () => existsSync(at.file('started')))
    const revoke = await at.holdfast('revoke', 'k')
    expect(revoke.stdout).toMatch(
      /^revoked k, held by .*: it cannot be renewed any more, and runs out in .* at the latest\n$/,
    )
    const first = await run.ended
    expect(first.code).toBe(79)
    expect(first.stderr).toContain('an operator revoked it')
    expect(first.stderr).not.toContain('was not renewed in time') // it did not take the deadline to end it
  })

  it('when the store does not answer: the command is ended at the deadline, and what failed is said', async () => {
    const at = place()
    const { run, command } = await hold(at, { stubborn: true })
    const raw = new Database(at.file('leases.db'))
    raw.exec('BEGIN IMMEDIATE')
    try {
      const first = await run.ended
      expect(first.code).toBe(79)
      expect(first.stderr).toContain('cannot renew the lease')
      expect(lives(command)).toBe(false)
    } finally {
      raw.exec('ROLLBACK')
      raw.close()
    }
    expect((await next(at).ended).code).toBe(0)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
  })

  it('when many want it: one after the other, with rising tokens', async () => {
    const at = place()
    const runs = Array.from({ length: 4 }, () => next(at))
    for (const run of runs) expect((await run.ended).code).toBe(0)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(4)
  })

  it('and the lease is renewed: a command may run for longer than the ttl', async () => {
    const at = place()
    const run = at.start(
      'run',
      'k',
      ...TTL,
      '--',
      'sh',
      '-c',
      'echo "$HOLDFAST_TOKEN" >> beats; sleep 5; echo "$HOLDFAST_TOKEN" >> beats',
    )
    await waitUntil('it runs', () => at.lines('beats').length === 1)
    const second = next(at)
    expect((await run.ended).code).toBe(0)
    expect((await second.ended).code).toBe(0)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
  })
})

describe('the checker of these tests', () => {
  it('finds two at once', () => {
    expect(() => tokensInTurn(['1', '1', '2', '1'])).toThrow('two held at once')
    expect(tokensInTurn(['1', '1', '2', '3'])).toEqual([1, 2, 3])
  })
})
