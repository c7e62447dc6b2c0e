// Signals and the terminal: what `holdfast run` is sent reaches the whole group of its command, and Ctrl-C and Ctrl-Z work as
// for any job of a shell. The terminal is a real one, made by `script` of util-linux.
import { existsSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { lives, MAIN, type Place, place, type Running, waitUntil } from './harness.js'

/** A shell with job control on a terminal of its own. */
function terminal(at: Place): Running {
  const shell = at.spawn('script', ['-qfec', 'bash --norc --noprofile -i', '/dev/null'], {
    ...at.env,
    PS1: 'prompt> ',
    TERM: 'dumb',
  })
  return shell
}

const holdfast = `"${process.execPath}" "${MAIN}"`

describe('signals', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const)(
    '%s reaches every process of the group, and the exit code is that of the command',
    async (signal) => {
      const at = place()
      // Not a second shell: what a shell runs with & ignores SIGINT and SIGQUIT.
      writeFileSync(
        at.file('inner.mjs'),
        `import { appendFileSync } from 'node:fs'
        process.on('${signal}', () => { appendFileSync('got', 'inner\\n'); process.exit() })
        setInterval(() => {}, 1e6)
        appendFileSync('ready', 'up\\n')`,
      )
      const trap = `trap 'echo outer >> got; wait; exit 5' ${signal.slice(3)}`
      const outer = at.script(
        'outer.sh',
        `"${process.execPath}" inner.mjs & ${trap}; echo up >> ready; while :; do sleep 0.01; done`,
      )
      const run = at.start('run', 'k', '--', ...outer)
      await waitUntil('both are ready', () => at.lines('ready').length === 2)
      run.kill(signal)
      expect((await run.ended).code).toBe(5)
      expect(at.lines('got').sort()).toEqual(['inner', 'outer'])
    },
  )

  it('ends with 128 + n when a signal comes while it waits, and a claim that waited holds nothing', async () => {
    const at = place()
    const first = at.start('run', 'k', '--', 'sh', '-c', 'touch started; while [ ! -e go ]; do sleep 0.01; done')
    await waitUntil('the first runs', () => existsSync(at.file('started')))
    const second = at.start('run', 'k', '--holder', 'second', '--wait', 'forever', '--', 'touch', 'ran')
    await waitUntilWaiting(at, 'second')
    second.kill('SIGINT')
    expect((await second.ended).code).toBe(130)
    await at.holdfast('run', 'other', '--', 'touch', 'go')
    expect((await first.ended).code).toBe(0)
    expect((await at.holdfast('run', 'k', '--wait', '0s', '--', 'true')).code).toBe(0)
    expect(existsSync(at.file('ran'))).toBe(false)
  })
})

describe('on a terminal', () => {
  it('Ctrl-C ends the command, and leaves no process behind', async () => {
    const at = place()
    const shell = terminal(at)
    shell.write(
      `${holdfast} run k -- sh -c 'trap "echo caught it; exit 9" INT; touch started; while :; do sleep 0.01; done'; echo code is $?\n`,
    )
    await waitUntil('it runs', () => existsSync(at.file('started')))
    shell.write('\x03')
    await waitUntil('the shell says how it ended', () => shell.stdout().includes('code is 9'))
    expect(shell.stdout()).toContain('caught it')
    shell.write('exit\n')
    await shell.ended
    expect(at.processes()).toEqual([])
  })

  it('Ctrl-Z stops the command and holdfast but not the watchdog, and fg continues them', async () => {
    const at = place()
    const shell = terminal(at)
    shell.write(`${holdfast} run k -- sh -c 'while [ ! -e go ]; do echo x >> beats; sleep 0.01; done; exit 4'\n`)
    await waitUntil('it runs', () => at.lines('beats').length > 0)
    shell.write('\x1a')
    await waitUntil('the shell says that it is stopped', () => /Stopped/.test(shell.stdout()))
    // A process that was told to stop does so when it is next on a processor: on a busy machine not at once.
    await waitUntil('holdfast and the command are stopped, the watchdog is not', () => {
      const all = at.processes()
      const watchdog = all.find(({ command }) => command.includes('watchdog'))
      const command = all.filter(({ pgid }) => pgid === all.find(({ ppid }) => ppid === watchdog?.pid)?.pid)
      const stopped = command.length > 0 && command.every(({ state }) => state === 'T')
      return stopped && watchdog?.state === 'S' && all.find(({ pid }) => pid === watchdog.ppid)?.state === 'T'
    })
    const beats = at.lines('beats').length
    shell.write('fg\n')
    await waitUntil('it goes on', () => at.lines('beats').length > beats)
    await at.holdfast('run', 'other', '--', 'touch', 'go')
    shell.write('echo code is $?\n')
    await waitUntil('the shell says how it ended', () => shell.stdout().includes('code is 4'))
  })

  it('a job that is stopped by Ctrl-Z past its ttl is ended, and fg says that the lease was lost', async () => {
    const at = place()
    const shell = terminal(at)
    shell.write(`${holdfast} run k --ttl 3s -- sh -c 'echo $$ > pid; while :; do echo x >> beats; sleep 0.01; done'\n`)
    await waitUntil('it runs', () => at.lines('beats').length > 0)
    shell.write('\x1a')
    await waitUntil('the shell says that it is stopped', () => /Stopped/.test(shell.stdout()))
    expect((await at.holdfast('run', 'k', '--wait', '1m', '--', 'true')).code).toBe(0)
    expect(lives(Number(at.read('pid')))).toBe(false)
    shell.write('fg\necho code is $?\n')
    await waitUntil('the shell says how it ended', () => shell.stdout().includes('code is 79'))
  })

  it('the command reads from the terminal and writes to it', async () => {
    const at = place()
    const shell = terminal(at)
    shell.write(
      `${holdfast} run k -- sh -c 'test -t 0 && test -t 1 && echo is a terminal; read -r line; echo "read <$line>"'\n`,
    )
    await waitUntil('it runs', () => shell.stdout().includes('\nis a terminal'))
    shell.write('some words\n')
    await waitUntil('it has read', () => shell.stdout().includes('read <some words>'))
  })
})

async function waitUntilWaiting(at: Place, holder: string): Promise<void> {
  for (let look = 0; look < 200; look++) {
    const { stdout } = await at.holdfast('show', 'k', '--json')
    if ((JSON.parse(stdout) as { waiters: { holder: string }[] }).waiters.some((waiter) => waiter.holder === holder))
      return
  }
  throw new Error(`${holder} does not wait`)
}
