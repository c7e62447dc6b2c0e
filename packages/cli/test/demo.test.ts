// `holdfast demo`: the story, the same on every run, and nobody left behind.
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { lives, MAIN, place, waitUntil } from './harness.js'

const STORY = `\
a   takes the lease on "report" for 10 s: token 1
b   asks for it, and is told that a holds it
a   checks its lease: held. It is about to write its report ...
--  a is frozen right here (SIGSTOP): a long pause, a slow disk, a virtual machine that stands still
db  15 s pass on the clock of the store: the lease of a has run out
b   takes the lease: token 2
b   writes to the plain register: it now has the report of b
b   writes to the fenced register with token 2: it now has the report of b
--  a is thawed (SIGCONT) and still believes that it holds the lease
a   writes to the plain register: it now has the report of a; that of b is gone, and nobody was told
a   writes to the fenced register with token 1: refused as stale, since its fence has seen token 2
a   asks for the lease again, and is told that b holds it
Shown: a lease alone cannot stop a holder that pauses after its check: the plain register now has the report of a.
Shown: a fence that compares tokens at the write stops it: the fenced register still has the report of b.
`

describe('demo', () => {
  it('tells the story, the same on every run, without colours where there is no terminal', async () => {
    const at = place()
    for (let run = 0; run < 3; run++)
      expect(await at.holdfast('demo')).toEqual({ code: 0, signal: null, stdout: STORY, stderr: '' })
    expect(at.processes()).toEqual([])
  })

  it('tells it as JSON, one object a line', async () => {
    const { code, stdout } = await place().holdfast('demo', '--json')
    expect(code).toBe(0)
    const steps = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(steps.map(({ step }) => step)).toEqual(steps.map((_, index) => index + 1))
    expect(steps.find(({ register, who }) => register === 'plain' && who === 'a')).toMatchObject({
      did: 'wrote',
      token: 1,
      accepted: true,
    })
    expect(steps.find(({ register, who }) => register === 'fenced' && who === 'a')).toMatchObject({
      did: 'wrote',
      token: 1,
      accepted: false,
    })
  })

  it('plays it in real time on a store, with the fence of that store', async () => {
    const at = place()
    const { code, stdout, stderr } = await at.holdfast('demo', '--store', 'sqlite:own.db')
    expect(stderr).toBe('')
    expect(code).toBe(0)
    expect(stdout).toContain('a is frozen right here (SIGSTOP)')
    expect(stdout).toContain('a   looks at its lease: lost.')
    const [, first, second] =
      /a {3}takes the lease on .*: token (\d+)\n[\s\S]*b {3}takes the lease: token (\d+)\n/.exec(stdout) ?? []
    expect(Number(second)).toBeGreaterThan(Number(first))
    expect(stdout).toContain(`with token ${first}: refused as stale, since its fence has seen token ${second}`)
    expect(at.read('leases.db')).toBe('')
    expect(at.processes()).toEqual([])
  })

  it('plays it on the store of HOLDFAST_STORE when --store names none', async () => {
    const at = place()
    expect((await at.holdfast('demo', '--store')).code).toBe(0)
    expect(at.read('leases.db')).not.toBe('')
  })

  it('refuses a store that cannot be, before anything is played', async () => {
    const at = place()
    expect(await at.holdfast('demo', '--store', 'redis://user:secret@host?nothing=1')).toEqual({
      code: 64,
      signal: null,
      stdout: '',
      stderr:
        'holdfast: a redis: URL has no parameter "nothing"; it takes prefix, retentionMs, endedRetentionMs, replicas, replicasTimeoutMs, socket\n',
    })
    expect((await at.holdfast('demo', '--store', 'sqlite:no/folder/x.db')).code).toBe(69)
  })

  it('has colours on a terminal, unless NO_COLOR or --no-color', async () => {
    const at = place()
    const shown = async (args: string, env: NodeJS.ProcessEnv = {}) => {
      const { stdout } = await at.spawn(
        'script',
        ['-qfec', `"${process.execPath}" "${MAIN}" demo ${args}`, '/dev/null'],
        { ...at.env, TERM: 'xterm', ...env },
      ).ended
      return stdout.replaceAll('\r\n', '\n')
    }
    const coloured = await shown('')
    expect(coloured).toContain('\x1b[')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what colours are made of
    expect(coloured.replaceAll(/\x1b\[\d+m/g, '')).toBe(STORY)
    expect(await shown('', { NO_COLOR: '1' })).toBe(STORY)
    expect(await shown('--no-color')).toBe(STORY)
  })

  it.each([
    ['SIGTERM', 'demo'],
    ['SIGKILL', 'demo'],
    ['SIGINT', 'all'], // as Ctrl-C does
  ] as const)('leaves nobody behind when %s is sent to %s, not even the frozen one', async (signal, whom) => {
    const at = place()
    const env = { ...at.env, TMPDIR: at.folder }
    const demo = at.spawn(process.execPath, [MAIN, 'demo', '--store', 'sqlite:own.db'], env)
    await waitUntil('a is frozen', () => demo.stdout().includes('b waits for it'))
    const others = at.processes().filter(({ pid }) => pid !== demo.pid)
    expect(others).toHaveLength(3)
    expect(others.filter(({ state }) => state === 'T')).toHaveLength(1)
    if (whom === 'all') for (const { pid } of others) process.kill(pid, signal)
    demo.kill(signal)
    await demo.ended
    await waitUntil('all have ended', () => others.every(({ pid }) => !lives(pid)))
    await waitUntil(
      'its folder is gone',
      () => !readdirSync(at.folder).some((name) => name.startsWith('holdfast-demo-')),
    )
  })
})
