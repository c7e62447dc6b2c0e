// `holdfast run` as a user knows it: what the command gets, what comes back, and what bad input is told.
import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { MAIN, place, waitUntil } from './harness.js'

describe('run', () => {
  it('gives the command its key, token and holder, its arguments and its streams', async () => {
    const { start } = place()
    const script = 'cat; echo "$HOLDFAST_KEY|$HOLDFAST_TOKEN|$HOLDFAST_HOLDER|$1|$2"; echo err >&2'
    const run = start('run', 'nightly report', '--holder', 'me', '--', 'sh', '-c', script, 'x', '--ttl', 'a  b')
    run.write('from stdin\n')
    run.endInput()
    const { code, stdout, stderr } = await run.ended
    expect(stdout).toMatch(/^from stdin\nnightly report\|[1-9]\d*\|me\|--ttl\|a {2}b\n$/)
    expect(stderr).toBe('err\n')
    expect(code).toBe(0)
  })

  it.each([
    ['exit 0', 0],
    ['exit 7', 7],
    ['exit 255', 255],
    ['kill -9 $$', 137],
    ['kill -TERM $$', 143],
  ])('passes on how the command ended: %s', async (script, code) => {
    expect((await place().holdfast('run', 'k', '--', 'sh', '-c', script)).code).toBe(code)
  })

  it('says like a shell that a command is not there or cannot be executed', async () => {
    const { holdfast, folder } = place()
    const missing = await holdfast('run', 'k', '--', 'no-such-command')
    expect(missing).toMatchObject({ code: 127, stderr: 'holdfast: "no-such-command" was not found\n' })
    expect((await holdfast('run', 'k', '--', folder)).code).toBe(126)
    // The lease was given back at once.
    expect((await holdfast('run', 'k', '--wait', '0s', '--', 'true')).code).toBe(0)
  })

  it('passes the environment on exactly, odd names included', async () => {
    const { spawn, env } = place()
    const odd = { ...env, 'a.b-c': 'x y', HOLDFAST_KEY: 'not this' }
    const show =
      'JSON.stringify([process.env["a.b-c"], process.env.HOLDFAST_KEY, Object.keys(process.env).filter((name) => name.startsWith("NODE"))])'
    const { stdout } = await spawn(process.execPath, [MAIN, 'run', 'k', '--', process.execPath, '-p', show], odd).ended
    expect(JSON.parse(stdout)).toEqual(['x y', 'k', []])
  })

  it('exits with 75 when another holds the lease and the wait is over, and names the holder', async () => {
    const { start, holdfast, file } = place()
    const first = start(
      'run',
      'k',
      '--holder',
      'first',
      '--',
      'sh',
      '-c',
      'touch started; while [ ! -e go ]; do sleep 0.01; done',
    )
    await waitUntil('the first runs', () => existsSync(file('started')))
    const second = await holdfast('run', 'k', '--wait', '0s', '--', 'touch', 'second')
    expect(second.code).toBe(75)
    expect(second.stderr).toMatch(/^holdfast: "k" is held by first.*\n$/)
    expect(existsSync(file('second'))).toBe(false)
    const third = start('run', 'k', '--wait', 'forever', '--', 'true')
    await holdfast('run', 'other', '--', 'touch', 'go')
    expect((await first.ended).code).toBe(0)
    expect((await third.ended).code).toBe(0)
  })

  it('keeps the lease until the processes that the command leaves behind have ended', async () => {
    const { start, holdfast, file, lines } = place()
    const run = start(
      'run',
      'k',
      '--',
      'sh',
      '-c',
      '(while [ ! -e go ]; do sleep 0.01; done; echo left >> order) & exit 3',
    )
    await waitUntil('it says so', () => run.stderr().includes('left behind'))
    expect((await holdfast('run', 'k', '--wait', '0s', '--', 'true')).code).toBe(75)
    const next = start('run', 'k', '--wait', '1m', '--', 'sh', '-c', 'echo next >> order')
    await holdfast('run', 'other', '--', 'touch', file('go'))
    expect((await run.ended).code).toBe(3)
    expect((await next.ended).code).toBe(0)
    expect(lines('order')).toEqual(['left', 'next'])
  })

  it('keeps the key taken for --min-hold, also when the command has long ended', async () => {
    const { holdfast } = place()
    const run = await holdfast('run', 'k', '--ttl', '3s', '--min-hold', '1h', '--', 'true')
    expect(run.code).toBe(0)
    const left = JSON.parse((await holdfast('show', 'k', '--json')).stdout) as { state: string; remainingMs: number }
    expect(left.state).toBe('held')
    expect(left.remainingMs).toBeGreaterThan(3_000_000)
    expect((await holdfast('run', 'k', '--wait', '0s', '--', 'true')).code).toBe(75)
  })

  it('exits with 69 when the store cannot be reached, and does not run the command', async () => {
    const { holdfast, file } = place()
    const run = await holdfast('run', 'k', '--store', `sqlite:${file('no/such/folder/x.db')}`, '--', 'touch', 'ran')
    expect(run.code).toBe(69)
    expect(run.stderr).toMatch(/^holdfast: .*\n$/)
    expect(existsSync(file('ran'))).toBe(false)
  })
})

describe('run refuses, before it asks any store, naming option and value', () => {
  it.each<[string, string[], RegExp]>([
    ['C01 a ttl that is no number', ['--ttl', 'NaN'], /--ttl must be a duration .*"NaN"/],
    ['C01 a fraction of a ms', ['--ttl', '0.5ms'], /--ttl must be a whole number of milliseconds; got "0.5ms"/],
    ['C01 a number without a unit', ['--ttl', '30'], /--ttl needs a unit: write 30s .* or 30ms/],
    ['C01 a negative ttl', ['--ttl=-5s'], /--ttl must be a duration .*"-5s"/],
    ['C01 a ttl below 3s', ['--ttl', '2999ms'], /--ttl must be at least 3s, got 2999ms/],
    ['C02 a duration beyond whole ms', ['--ttl', '99999999999999h'], /--ttl must be a whole number of milliseconds/],
    ['C04 a negative wait', ['--wait=-1s'], /--wait must be a duration .*"-1s"/],
    ['C04 a wait without a unit', ['--wait', '0'], /--wait needs a unit: write 0s/],
    ['C04 an unknown unit', ['--wait', '1d'], /--wait has the unit "d": use ms, s, m or h/],
    [
      'a grace beyond the margin less 250ms',
      ['--ttl', '3s', '--grace', '751ms'],
      /--grace must be at most 750ms with --ttl 3s .* got 751ms/,
    ],
    ['a grace without a unit', ['--grace', '1'], /--grace needs a unit/],
    ['a min-hold that is no duration', ['--min-hold', 'long'], /--min-hold must be a duration .*"long"/],
    ['an empty holder', ['--holder', ''], /--holder must not be empty/],
    ['C06 a holder that is too long', ['--holder', 'x'.repeat(257)], /holder must be at most 256 characters/],
    ['an unknown option', ['--tll', '3s'], /unknown option '--tll'/],
    ['an unknown store', ['--store', 'mongodb://user:secret@host'], /unknown store scheme mongodb:/],
  ])('%s', async (_, options, message) => {
    const { holdfast, file } = place()
    const run = await holdfast('run', 'k', ...options, '--', 'touch', 'ran')
    expect(run.stderr).toMatch(message)
    expect(run.stderr).not.toContain('secret')
    expect(run.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(run.code).toBe(64)
    expect(existsSync(file('ran'))).toBe(false)
    expect(existsSync(file('leases.db'))).toBe(false)
  })

  it.each<[string, string[], RegExp]>([
    ['C06 an empty key', ['', '--', 'true'], /KEY must not be empty/],
    [
      'C06 a key that is too long',
      ['é'.repeat(257), '--', 'true'],
      /KEY must be at most 512 bytes of UTF-8 \(it is 514\)/,
    ],
    ['a command without --', ['k', 'true'], /put -- before the command/],
    ['no command', ['k', '--'], /missing required argument/],
    ['an empty command', ['k', '--', ''], /the command after -- is missing/],
    ['no key', [], /missing required argument/],
  ])('%s', async (_, args, message) => {
    const { holdfast, file } = place()
    const run = await holdfast('run', ...args)
    expect(run.stderr).toMatch(message)
    expect(run.code).toBe(64)
    expect(existsSync(file('leases.db'))).toBe(false)
  })

  it('takes the smallest ttl with the biggest grace', async () => {
    expect((await place().holdfast('run', 'k', '--ttl', '3s', '--grace', '750ms', '--', 'true')).code).toBe(0)
  })
})
