// The reference page, the help texts and the code say the same.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { EXIT } from '../src/exit.js'
import { place } from './harness.js'

const page = readFileSync(new URL('../../../docs/reference/cli.md', import.meta.url), 'utf8')
const COMMANDS = ['demo', 'run', 'ls', 'show', 'watch', 'revoke', 'doctor', 'schema']

/** What the page says of a command. */
const section = (command: string) => page.split(/^## /m).find((part) => part.startsWith(`${command}\n`)) ?? ''

describe('the reference page', () => {
  it('has a row for every exit code', () => {
    for (const code of Object.values(EXIT)) expect(page).toMatch(new RegExp(`^\\| ${code} `, 'm'))
    const rows = [...page.matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code))
    expect(new Set(rows)).toEqual(new Set(Object.values(EXIT).filter((code) => code !== EXIT.signalled)))
  })

  it.each(COMMANDS)('names every option of %s, and no other', async (command) => {
    const { code, stdout, stderr } = await place().holdfast(command, '--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const options = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)]
      .map(([, option]) => option)
      .filter((option) => option !== '--help')
    expect(options.length).toBeGreaterThan(0)
    const documented = new Set([...section(command).matchAll(/`(--[a-z-]+)/g)].map(([, option]) => option))
    expect(documented).toEqual(new Set(options))
  })

  it('is led to by every command: the list of all commands is complete', async () => {
    const { stdout } = await place().holdfast('--help')
    const listed = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name).filter((name) => name !== 'help')
    expect(listed).toEqual(COMMANDS)
  })
})

describe('--help of run says', () => {
  it.each([
    ['what a freeze of everything does', /frozen together .* COMMAND dies within a second of the thaw/],
    ['that only the token protects then', /only its token protects/],
    ['that what leaves the group escapes', /leave the group of COMMAND .* escape/],
    ['that the watchdog is not stopped by Ctrl-Z', /watchdog is not stopped with it/],
    ['that there is no controlling terminal', /without a controlling terminal/],
    ['each code of its own', /64 .*69 .*70 .*75 .*79 .*126 .*127 /],
  ])('%s', async (_, text) => {
    const { stdout } = await place().holdfast('run', '--help')
    expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(text)
  })
})

describe('bad usage', () => {
  it.each([
    [['no-such-command'], /unknown command 'no-such-command'/],
    [['ls', '--no-such-option'], /unknown option '--no-such-option'/],
    [['show'], /missing required argument 'key'/],
    [['show', 'a', 'b'], /too many arguments/],
    [['show', ''], /KEY must not be empty/],
    [['ls', '--store'], /argument missing/],
    [['ls', '--store', './leases.db'], /for a SQLite file write sqlite:\.\/leases\.db/],
  ])('%j exits with 64, in one line', async (args, message) => {
    const { code, stdout, stderr } = await place().holdfast(...args)
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^holdfast: .*\n$/)
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' })
  })

  it('nothing at all shows the help, and exits with 64', async () => {
    const { code, stdout, stderr } = await place().holdfast()
    expect(stderr).toContain('Usage: holdfast')
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' })
  })
})
