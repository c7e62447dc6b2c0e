// Units: durations, escapes, tables, store URLs, the terms of `run`.
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { chooseStore } from '../src/connect.js'
import { CliError } from '../src/exit.js'
import { terms } from '../src/run/terms.js'
import { openUrl } from '../src/stores/index.js'
import { sqlitePath } from '../src/stores/sqlite-url.js'
import { exactDuration, parseDuration, printable, roughDuration, shownName, table } from '../src/text.js'

const usage = (message: RegExp) => expect.objectContaining({ exitCode: 64, message: expect.stringMatching(message) })

function thrownBy(run: () => unknown): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5m', 90_000],
    ['2h', 7_200_000],
    ['0s', 0],
    ['0.001s', 1],
    ['600h', 2_160_000_000], // C02: above 2^31 - 1 ms
  ])('reads %s', (text, ms) => {
    expect(parseDuration('--x', text)).toBe(ms)
  })

  it.each(['', ' ', '30', '-1s', '+1s', '1e3s', '0.5ms', '1 s', 's', 'NaN', 'Infinity', '1d', '30S', '1s2s', '٣s'])(
    'refuses %j',
    (text) => {
      expect(thrownBy(() => parseDuration('--x', text))).toEqual(usage(/^--x /))
    },
  )

  it('writes them as options would, and roughly', () => {
    expect([750, 1_000, 90_000, 3_600_000, 0].map(exactDuration)).toEqual(['750ms', '1s', '90s', '1h', '0ms'])
    expect([0, 0.2, 950, 29_460, 300_000, 9_000_000].map(roughDuration)).toEqual([
      '0 ms',
      '1 ms',
      '950 ms',
      '29.5 s',
      '5 min',
      '2.5 h',
    ])
  })
})

describe('names', () => {
  it('are shown so that no terminal is played with, and no two are alike', () => {
    expect(printable('a\x1b[2J\x9bb\u200b\u2028')).toBe('a\\u{1b}[2J\\u{9b}b\\u{200b}\\u{2028}')
    expect(shownName('\\u{1b}')).not.toBe(shownName('\x1b'))
    expect(printable('plain text, ü 漢 🎉')).toBe('plain text, ü 漢 🎉')
  })

  it('stand in aligned columns, numbers to the right', () => {
    expect(
      table(
        ['A', 'N'],
        [
          ['long', '1'],
          ['x', '100'],
        ],
        new Set(['N']),
      ),
    ).toBe('A       N\nlong    1\nx     100\n')
  })
})

describe('the terms of run', () => {
  it.each([
    [3_000, 1_000, 500],
    [5_000, 1_000, 500],
    [30_000, 6_000, 3_000],
    [600_000, 120_000, 10_000],
  ])('of a ttl of %i ms are a margin of %i and a grace of %i', (ttlMs, marginMs, graceMs) => {
    expect(terms(ttlMs, undefined)).toEqual({ ttlMs, marginMs, graceMs })
  })

  it('leave 250 ms between SIGKILL and the end of the term', () => {
    expect(terms(30_000, 5_750).graceMs).toBe(5_750)
    expect(thrownBy(() => terms(30_000, 5_751))).toEqual(usage(/^--grace must be at most 5750ms with --ttl 30s/))
    expect(thrownBy(() => terms(2_999, undefined))).toEqual(usage(/^--ttl must be at least 3s, got 2999ms/))
  })
})

describe('store URLs', () => {
  it.each([
    ['sqlite:x.db', resolve('x.db')],
    ['sqlite:./a/x.db', resolve('a/x.db')],
    ['sqlite:/abs/x.db', '/abs/x.db'],
    ['sqlite:///abs/x.db', '/abs/x.db'],
    ['SQLite:/abs/x.db', '/abs/x.db'],
    ['sqlite:~/x.db', join(homedir(), 'x.db')],
    ['sqlite:/a%20b%25%23%3F/x.db', '/a b%#?/x.db'],
    ['sqlite:/a b/ü.db', '/a b/ü.db'],
  ])('%s names a file', (url, path) => {
    expect(sqlitePath(url)).toBe(path)
  })

  it.each([
    ['/var/leases.db', /; for a SQLite file write sqlite:\/var\/leases\.db$/],
    ['leases.db', /write sqlite:leases\.db$/],
    ['', /must be named by a URL/],
    ['sqlite:', /needs the path of a file/],
    ['sqlite:/x?mode=ro', /takes no "\?" or "#"/],
    ['sqlite:/x%zz', /has a "%"/],
    ['sqlite:/x%00', /has a NUL character/],
    ['sqlite://host/x', /names no host/],
    ['sqlite::memory:', /would be seen by this process alone/],
    ['nats://me:secret@db/a/b', /^after the hosts a nats: URL names a bucket/],
    ['kubernetes:No_secret', /^a kubernetes: URL names a namespace/],
    ['kubernetes:jobs?name=1', /has no parameter "name"; it takes kubeconfig, context/],
    ['mongodb://me:secret@db/x', /^unknown store scheme mongodb:; this version has sqlite:, redis:/],
    ['me:secret@db', /^unknown store scheme; this version has/],
    ['user secret@db', /must be named by a URL such as sqlite:\.\/leases\.db$/],
  ])('%s is refused, and no password is repeated', async (url, message) => {
    const error = await openUrl(url).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(CliError)
    expect(error).toEqual(usage(message))
    expect((error as Error).message).not.toContain('secret')
  })

  it('the default is told as a URL that names the very file', () => {
    const { url, isDefault } = chooseStore(undefined, { XDG_STATE_HOME: '/odd %23 #?/x' })
    expect(isDefault).toBe(true)
    if (process.platform === 'linux') expect(sqlitePath(url)).toBe('/odd %23 #?/x/holdfast/leases.db')
    expect(chooseStore(undefined, { HOLDFAST_STORE: 'sqlite:a' })).toEqual({ url: 'sqlite:a', isDefault: false })
    expect(chooseStore('sqlite:b', { HOLDFAST_STORE: 'sqlite:a' })).toEqual({ url: 'sqlite:b', isDefault: false })
  })
})
