// ls, show, watch and revoke, and the store that they look at when nobody names one.
import { existsSync, statSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { MAIN, type Place, place, type Running, waitUntil } from './harness.js'

/** Starts a run that holds until the file `go` is there. */
async function hold(at: Place, key: string, ...options: string[]): Promise<Running> {
  const before = at.lines('started').length
  const run = at.start(
    'run',
    key,
    ...options,
    '--',
    'sh',
    '-c',
    'echo x >> started; while [ ! -e go ]; do sleep 0.01; done',
  )
  await waitUntil('it runs', () => at.lines('started').length > before)
  return run
}

const letGo = (at: Place) => at.holdfast('run', 'let them go', '--', 'touch', 'go')

describe('ls', () => {
  it('shows key, holder, token, what is left, changes and who waits, in aligned columns', async () => {
    const at = place()
    await at.holdfast('run', 'a', '--', 'true')
    const run = await hold(at, 'a', '--holder', 'first')
    await hold(at, 'longer/key', '--holder', 'x')
    const waiting = at.start('run', 'a', '--holder', 'second', '--wait', 'forever', '--', 'true')
    await waitForWaiter(at, 'a')
    const { stdout, code } = await at.holdfast('ls')
    expect(code).toBe(0)
    const [heading = '', ...rows] = stdout.trimEnd().split('\n')
    expect(heading).toMatch(/^KEY +HOLDER +TOKEN +LEFT +CHANGES +WAITING$/)
    expect(rows).toHaveLength(2)
    expect(rows[0]).toMatch(/^a +first +\d+ +[\d.]+ s +2 +second$/)
    expect(rows[1]).toMatch(/^longer\/key +x +\d+ +[\d.]+ s +1 +-$/)
    expect(rows[0]?.indexOf('first')).toBe(heading.indexOf('HOLDER'))
    expect(rows[1]?.indexOf('x', 'longer/key'.length)).toBe(heading.indexOf('HOLDER'))
    await letGo(at)
    expect((await run.ended).code).toBe(0)
    expect((await waiting.ended).code).toBe(0)
  })

  it('prints JSON without the claims, which are secrets, and takes a prefix and --all', async () => {
    const at = place()
    await hold(at, 'jobs/one', '--holder', 'me')
    await at.holdfast('run', 'jobs/two', '--', 'true')
    const list = async (...args: string[]) =>
      JSON.parse((await at.holdfast('ls', '--json', ...args)).stdout) as Record<string, unknown>[]
    const [record] = await list()
    expect(record).toMatchObject({
      key: 'jobs/one',
      state: 'held',
      holder: 'me',
      changes: 1,
      revoked: false,
      waiters: [],
      ttlMs: 30_000,
    })
    expect(record).not.toHaveProperty('claim')
    expect(await list('--prefix', 'other/')).toEqual([])
    expect((await list('--all', '--prefix', 'jobs/')).map(({ key, state }) => [key, state])).toEqual([
      ['jobs/one', 'held'],
      ['jobs/two', 'free'],
    ])
  })

  it('writes what could play with the terminal as escapes, and two names never alike', async () => {
    const at = place()
    await hold(at, 'red \x1b[31m\u202e\n', '--holder', 'a\tb')
    await hold(at, 'red \\u{1b}')
    const { stdout } = await at.holdfast('ls')
    expect(stdout).not.toMatch(/[^\x20-\x7e\n]/)
    expect(stdout).toContain('red \\u{1b}[31m\\u{202e}\\u{a}')
    expect(stdout).toContain('a\\u{9}b')
    expect(stdout).toContain('red \\\\u{1b}')
    expect(stdout.trimEnd().split('\n')).toHaveLength(3)
  })
})

describe('show', () => {
  it('shows a lease that is held, and one that is free', async () => {
    const at = place()
    const run = await hold(at, 'k', '--holder', 'me')
    const held = await at.holdfast('show', 'k')
    expect(held.stdout).toMatch(
      /^key {10}k\nstate {8}held\nholder {7}me\ntoken {8}\d+\nleft {9}[\d.]+ s of 30 s\nheld for .*\nchanges {6}1\nwaiting {6}-\n$/,
    )
    await letGo(at)
    await run.ended
    expect((await at.holdfast('show', 'k')).stdout).toMatch(/state {8}free\nlast holder {2}me\n/)
    expect(JSON.parse((await at.holdfast('show', 'k', '--json')).stdout)).toMatchObject({
      key: 'k',
      state: 'free',
      remainingMs: 0,
    })
  })

  it('exits with 1 for a key that the store does not know', async () => {
    const { code, stdout, stderr } = await place().holdfast('show', 'no such key')
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: '',
      stderr: 'holdfast: the store knows nothing of the key "no such key"\n',
    })
  })
})

describe('watch', () => {
  it('prints a line at each change until Ctrl-C, and then exits with 0', async () => {
    const at = place()
    const watch = at.start('watch', 'k')
    await waitUntil('it has started', () => watch.stdout().includes('unknown'))
    const run = await hold(at, 'k', '--holder', 'me')
    await waitUntil('it shows the holder', () =>
      /k {2}held by me \(token \d+, 1 change, .* left\)\n/.test(watch.stdout()),
    )
    await at.holdfast('revoke', 'k')
    await waitUntil('it shows the revocation', () => /, revoked\)\n/.test(watch.stdout()))
    await letGo(at)
    await run.ended
    await waitUntil('it shows that the key is free', () => /k {2}free \(token \d+, 1 change\)\n/.test(watch.stdout()))
    watch.kill('SIGINT')
    expect(await watch.ended).toMatchObject({ code: 0, stderr: '' })
    expect(watch.stdout().trimEnd().split('\n')).toHaveLength(4)
  })

  it('prints JSON, one object a line', async () => {
    const at = place()
    const watch = at.start('watch', 'k', '--json')
    await waitUntil('it has started', () => watch.stdout() === 'null\n')
    await at.holdfast('run', 'k', '--holder', 'me', '--', 'true')
    await waitUntil('it shows the change', () => watch.stdout().split('\n').length > 2)
    expect(JSON.parse(watch.stdout().trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
      key: 'k',
      holder: 'me',
      changes: 1,
    })
    watch.kill('SIGTERM')
    expect((await watch.ended).code).toBe(0)
  })

  it('ends without a word when its reader has seen enough', async () => {
    const at = place()
    const piped = at.spawn('sh', ['-c', `"${process.execPath}" "${MAIN}" watch k | head -n 1; echo done`])
    await waitUntil('the first line has come', () => piped.stdout().includes('unknown'))
    await at.holdfast('run', 'k', '--', 'true')
    await piped.ended
    expect(piped.stdout()).toMatch(/unknown\ndone\n$/)
    expect(piped.stderr()).toBe('')
  })
})

describe('revoke', () => {
  it('says that the term runs out, and keeps others out until then', async () => {
    const at = place()
    const run = await hold(at, 'k', '--holder', 'me')
    const { code, stdout, stderr } = await at.holdfast('revoke', 'k')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /^revoked k, held by me with token \d+: it cannot be renewed any more, and runs out in [\d.]+ s at the latest\n$/,
    )
    expect((await at.holdfast('run', 'k', '--wait', '0s', '--', 'true')).code).toBe(75)
    expect((await at.holdfast('ls')).stdout).toContain('(revoked)')
    run.kill('SIGKILL')
  })

  it('--force frees the key at once, and warns that exclusion is broken', async () => {
    const at = place()
    await hold(at, 'k', '--holder', 'me')
    const { code, stdout, stderr } = await at.holdfast('revoke', 'k', '--force')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^freed k, held by me with token \d+\n$/)
    expect(stderr).toMatch(/^holdfast: warning: exclusion is broken.*\n$/)
    expect((await at.holdfast('run', 'k', '--wait', '0s', '--', 'true')).code).toBe(0)
  })

  it('exits with 1 when nobody holds the key', async () => {
    expect(await place().holdfast('revoke', 'k')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'holdfast: nobody holds "k"\n',
    })
  })
})

describe('the store', () => {
  it('is a file in a folder of this user alone when nobody names one, and that is said on stderr', async () => {
    const at = place()
    const env = { ...at.env, HOLDFAST_STORE: '' }
    const run = await at.spawn(process.execPath, [MAIN, 'run', 'k', '--', 'true'], env).ended
    const path = at.file('.local/state/holdfast/leases.db')
    expect(run).toMatchObject({
      code: 0,
      stderr: `holdfast: using sqlite:${path} (name another with --store or HOLDFAST_STORE)\n`,
    })
    expect(existsSync(path)).toBe(true)
    expect(statSync(at.file('.local/state/holdfast')).mode & 0o777).toBe(0o700)

    const state = await at.spawn(process.execPath, [MAIN, 'ls', '--all'], {
      ...env,
      XDG_STATE_HOME: at.file('state ü%'),
    }).ended
    expect(state.code).toBe(0)
    expect(existsSync(at.file('state ü%/holdfast/leases.db'))).toBe(true)
    expect(state.stdout).not.toContain('k ')
  })

  it('is the one of --store rather than that of HOLDFAST_STORE', async () => {
    const at = place()
    expect((await at.holdfast('run', 'k', '--store', 'sqlite:here.db', '--', 'true')).code).toBe(0)
    expect(existsSync(at.file('here.db'))).toBe(true)
    expect(existsSync(at.file('leases.db'))).toBe(false)
  })

  it('that is no database is refused with 69, in one line', async () => {
    const at = place()
    at.script(
      'leases.db',
      'this is no database, but a text that is long enough to be looked at by SQLite as if it were one, and more. '.repeat(
        20,
      ),
    )
    const { code, stderr } = await at.holdfast('ls')
    expect(code).toBe(69)
    expect(stderr).toMatch(/^holdfast: .*\n$/)
  })

  it('HOLDFAST_DEBUG adds where a failure came from', async () => {
    const at = place()
    const env = { ...at.env, HOLDFAST_DEBUG: '1' }
    const { stderr } = await at.spawn(process.execPath, [MAIN, 'show', 'k'], env).ended
    expect(stderr).toMatch(/\n +at /)
  })
})

async function waitForWaiter(at: Place, key: string): Promise<void> {
  for (let look = 0; look < 200; look++) {
    const { stdout } = await at.holdfast('show', key, '--json')
    if ((JSON.parse(stdout) as { waiters: unknown[] }).waiters.length > 0) return
  }
  throw new Error('nobody waits')
}
