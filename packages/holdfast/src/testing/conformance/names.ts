// G11: names are exact. Two different keys never share a lease, and a key comes back as it was asked.
import type { ConformanceCase } from './case.js'
import { equal } from './check.js'
import type { ConformanceWorld } from './world.js'

/** Names that some store or other has cut, folded, split or taken for a pattern (C06, C07). */
// biome-ignore format: as a table
const NAMES = [
  ' ', '  ', 'a b', ' a', 'a ', 'a', 'A', 'user:42', 'user:4', 'user', 'a.b.*.>', '*', '?', '%', '_', 'a%', 'a_', '[a]', '^a',
  '\\', '\\\\', '{', '}', '}{a', '{}a', '{a}b{c}', '{a}b', '{a}c', "'", "''", '"', '--', ';', '$1', ':a', '@a', '#', '/', '//',
  'a/', '/a', '../a', '.', '..', 'a\nb', 'a\r\nb', '\t', 'null', 'undefined', '0', '00', '1e3', '1000', 'x'.repeat(64),
  'x'.repeat(65), 'x'.repeat(256), 'ä'.repeat(33), 'ä', 'a\u0308', 'Ä', 'ß', 'ss', 'ı', 'i', 'I', '\u{1F600}', '\u{1F601}',
  '\u{1F468}\u200D\u{1F469}', '\u200B', '\uFEFF', '\uFFFD', '\uE000',
]

/** Two names that are not one. */
const apart = (
  id: string,
  title: string,
  pairs: (w: ConformanceWorld) => readonly (readonly [string, string])[],
): ConformanceCase => ({
  id: `G11-${id}`,
  guarantee: 'G11',
  title,
  aboutFault: true,
  async run(w) {
    const [a, b] = w.claims()
    for (const [one, two] of pairs(w)) {
      const first = await w.granted(a, { key: `${w.key}${one}` })
      const second = await w.granted(b, { key: `${w.key}${two}` })
      await w.lost(a, [], { key: `${w.key}${two}` })
      await w.untouched(a, first, { key: `${w.key}${one}` })
      await w.untouched(b, second, { key: `${w.key}${two}` })
    }
  },
})

export const names: readonly ConformanceCase[] = [
  {
    id: 'G11-names-work-as-they-are',
    guarantee: 'G11',
    title:
      'every well-formed name is granted, renewed, shown, listed and released as it is, beside all others (C06, C07)',
    aboutFault: true,
    async run(w) {
      const keys = NAMES.map((name) => `${w.key}${name}`)
      const claimOf = (key: string) => `claim of ${keys.indexOf(key)}`
      await w.forAll(keys, (key) => w.granted(claimOf(key), { key }))
      await w.forAll(keys, async (key) => {
        const record = await w.inspect({ key })
        equal(
          [record?.key, record?.claim],
          [key, claimOf(key)],
          `key and claim of the record of ${JSON.stringify(key)}`,
        )
      })
      equal((await w.listed()).sort(), [...keys].sort(), 'the keys that list gives')
      const outcomes = await w.store.renew(keys.map((key) => ({ key, claim: claimOf(key), ttlMs: w.longMs })))
      equal(
        keys.filter((_, i) => outcomes[i]?.is !== 'renewed'),
        [],
        'the keys that were not renewed',
      )
      await w.forAll(keys, (key) => w.freed(claimOf(key), { key }))
    },
  },
  apart('case-counts', 'names that differ in case are two (C06)', () => [
    ['Report', 'report'],
    ['ÄRGER', 'ärger'],
  ]),
  apart('normal-forms-count', 'names that look alike in two normal forms are two (C06)', () => [
    ['caf\u00e9', 'cafe\u0301'],
    ['\u212B', '\u00C5'],
    ['\uFB01', 'fi'],
  ]),
  apart('spaces-count', 'names that differ by a space or a line break at the end are two (C06)', () => [
    ['report', 'report '],
    ['line', 'line\n'],
    ['tab', 'tab\t'],
  ]),
  apart('accents-count', 'names that a collation takes for equal are two (C06)', () => [
    ['resume', 'résumé'],
    ['strasse', 'straße'],
    ['joined', 'jo\u200Bined'],
  ]),
  apart('length-counts', 'names as long as they may be that differ in the last character are two (C06)', (w) => {
    const longest = 'x'.repeat(w.store.capabilities.keyBytesMax - w.key.length - 1)
    const letters = 'ä'.repeat(Math.floor(longest.length / 2))
    return [
      [`${longest}1`, `${longest}2`],
      [`${letters}1`, `${letters}2`],
      ['y'.repeat(64), `${'y'.repeat(64)}z`],
    ]
  }),
  apart('beginnings-are-names', 'a name that begins with another is another (C47)', () => [
    ['node-1', 'node-10'],
    ['order', 'order:1'],
  ]),
  apart('braces-are-letters', 'names that share a part in braces are two (C06, C14)', () => [
    ['{tenant}a', '{tenant}b'],
    ['{tenant}', 'tenant'],
  ]),
  {
    id: 'G11-own-bookkeeping-is-no-key',
    guarantee: 'G11',
    title: 'what a store keeps beside a key takes no other key away (C07)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, ['held'], w.store.capabilities.fair ? { queue: { pollMs: w.longMs } } : {})
      await w.withdraw(c)
      const beside = [
        'queue',
        'waiters',
        'ended',
        'withdrawn',
        'token',
        'tokens',
        'fence',
        'counter',
        'meta',
        'lock',
        'lease',
        'holder',
      ]
      const keys = beside.flatMap((word) => [':', '/', '.', '-', '_', '#', ''].map((joint) => w.key + joint + word))
      await w.forAll(keys, async (key) => {
        const grant = await w.granted(c, { key })
        await w.untouched(c, grant, { key })
      })
    },
  },
]
