// Fingerprints and the codec: what is the same has one fingerprint, what differs has another; what is carried comes back exactly,
// and all else is refused (C56).
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fingerprintOf, fingerprintOfJson, keyOf, plainCodec } from '../../src/idempotency/index.js'
import { sha256 } from '../../src/idempotency/sha256.js'

/** Plain data, with everything in it that is easily lost on the way. */
const plain = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constant(-0),
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('e\u0301', '\u00e9', '\u212b', '__proto__', '\0', '\u2028'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.string({ unit: 'grapheme' }), tie('value'), { maxKeys: 4 }).map((o) => ({ ...o })),
  ),
})).value

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

interface Said {
  readonly version: string
  readonly sorted: string[]
  readonly fingerprints: string[][]
}

/** What another process says. */
function saidBy(node: string, lang: string, texts: readonly string[]): Said {
  const output = execFileSync(node, [here('programs/fingerprints.mjs')], {
    input: JSON.stringify(texts),
    env: { ...process.env, LANG: lang, LC_ALL: lang },
    encoding: 'utf8',
  })
  return JSON.parse(output) as Said
}

const shuffled = (value: unknown, seed: number): unknown => {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, seed))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, member]) => [name, shuffled(member, seed)] as const)
  return Object.fromEntries(seed % 2 === 0 ? entries.reverse() : [...entries.slice(1), ...entries.slice(0, 1)])
}

const changed = (value: unknown): unknown => {
  if (Array.isArray(value)) return [...value, 1]
  if (typeof value === 'object' && value !== null) return { ...value, added: null }
  if (typeof value === 'string') return `${value}x`
  if (typeof value === 'number') return String(value)
  return value === null ? false : !value
}

const hasTwins = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return false
  const names = Array.isArray(value) ? [] : Object.keys(value).map((name) => name.normalize('NFC'))
  return new Set(names).size !== names.length || Object.values(value).some(hasTwins)
}

/** One instance of each kind that has no form, by where it is put. */
const unfit: [string, unknown][] = [
  ['undefined', undefined],
  ['NaN', Number.NaN],
  ['Infinity', Number.NEGATIVE_INFINITY],
  ['a BigInt', 1n],
  ['a Date', new Date(0)],
  ['a Map', new Map()],
  ['a Set', new Set([1])],
  ['a Buffer', Buffer.from('a')],
  ['a typed array', new Uint8Array(1)],
  ['a class instance', new (class Money {})()],
  ['a boxed number', Object(1)],
  ['an error', new Error('x')],
  ['a promise', Promise.resolve()],
  ['a function', () => 1],
  ['a symbol', Symbol('x')],
  ['a symbol member', { [Symbol('x')]: 1 }],
  ['a list with holes', Object.assign([1], { length: 3 })],
  ['a list with names', Object.assign([1], { name: 1 })],
  ['half a surrogate pair', 'a\ud800'],
  ['half a surrogate pair in a name', { 'a\udc00': 1 }],
  ['a toJSON', { toJSON: () => 1 }],
]

describe('fingerprintOf', () => {
  it('is that of SHA-256 over the canonical text, as it will always be (golden)', () => {
    const value = { b: [1, 'é', null], a: { z: true, y: -0 } }
    const text = '{"a":{"y":0,"z":true},"b":[1,"é",null]}'
    expect(fingerprintOf(value)).toBe(`h1-${createHash('sha256').update(text).digest('hex')}`)
    expect(fingerprintOf(null)).toBe('h1-74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b')
  })

  it('is the same in a process of another language, and under a newer Node (C56)', () => {
    const mixed = '{"z":1,"ä":[1.0,-0,1e21,5e-324,0.1],"Z":null,"I":"\\u0131İ","e\\u0301":"\\u212b \\ud83d\\ude00"}'
    const texts = [mixed, '[]', '"\\u2028"', ...fc.sample(plain, 200).map((value) => JSON.stringify(value))].filter(
      (text) => !hasTwins(JSON.parse(text)),
    )
    const mine = texts.map((text) => [fingerprintOf(JSON.parse(text)), fingerprintOfJson(text)])
    const newerNode = here('../clients/node_modules/.bin/node')
    const [swedish, newer] = [saidBy(process.execPath, 'sv_SE.UTF-8', texts), saidBy(newerNode, 'de_DE.UTF-8', texts)]
    expect(newer.version).not.toBe(process.version)
    expect(swedish.sorted).not.toEqual(newer.sorted) // what sorts by the language has two fingerprints
    expect(swedish.fingerprints).toEqual(mine)
    expect(newer.fingerprints).toEqual(mine)
  })

  it('is the same for members in any order', () => {
    fc.assert(
      fc.property(plain, fc.nat(5), (value, seed) => {
        fc.pre(!hasTwins(value))
        expect(fingerprintOf(shuffled(value, seed))).toBe(fingerprintOf(value))
      }),
    )
  })

  it('is the same after a way through JSON, in whatever layout', () => {
    fc.assert(
      fc.property(plain, fc.nat(4), (value, indent) => {
        fc.pre(!hasTwins(value))
        expect(fingerprintOf(JSON.parse(JSON.stringify(value, null, indent)))).toBe(fingerprintOf(value))
      }),
    )
  })

  it('is another one for anything that differs', () => {
    fc.assert(
      fc.property(plain, (value) => {
        fc.pre(!hasTwins(value))
        expect(fingerprintOf(changed(value))).not.toBe(fingerprintOf(value))
      }),
    )
  })

  it.each([
    ['members in another order', { a: 1, b: { c: 2, d: 3 } }, { b: { d: 3, c: 2 }, a: 1 }],
    ['undefined and missing', { a: 1, b: undefined }, { a: 1 }],
    ['-0 and 0', { a: -0 }, { a: 0 }],
    ['1 and 1e0', [1], [1]],
    ['NFC and NFD', { caf\u00e9: '\u00e9' }, { 'cafe\u0301': 'e\u0301' }],
    ['order by code unit', { ä: 1, z: 2, Z: 3 }, { Z: 3, ä: 1, z: 2 }],
    ['no prototype', Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
    ['another realm', runInNewContext('({ a: [1, { b: 2 }] })'), { a: [1, { b: 2 }] }],
  ])('is the same: %s', (_, left, right) => {
    expect(fingerprintOf(left)).toBe(fingerprintOf(right))
  })

  it.each([
    ['text and number', { a: '1' }, { a: 1 }],
    ['null and missing', { a: null }, {}],
    ['order of a list', [1, 2], [2, 1]],
    ['list and object', [], {}],
    ['true and its text', [true], ['true']],
    ['nested and not', { a: { b: 1 } }, { 'a.b': 1 }],
    ['compatibility forms', ['\ufb01'], ['fi']],
    ['an own __proto__', JSON.parse('{"__proto__": 1}'), {}],
    ['a blank at the end', 'a', 'a '],
  ])('differs: %s', (_, left, right) => {
    expect(fingerprintOf(left)).not.toBe(fingerprintOf(right))
  })

  it.each(unfit)('refuses %s, wherever it is, and names the place', (_, value) => {
    expect(() => fingerprintOf(value)).toThrow(/must be plain data/)
    expect(() => fingerprintOf([{ a: [value] }])).toThrow(/^value\[0\]\.a\[0\]/)
  })

  it('refuses cycles, what is too deep, and names that are one in NFC; a repeated value is none', () => {
    const loop: Record<string, unknown> = {}
    loop.self = { loop }
    expect(() => fingerprintOf(loop)).toThrow(/contains itself/)
    let deep: unknown = 1
    for (let i = 0; i < 10_000; i++) deep = [deep]
    expect(() => fingerprintOf(deep)).toThrow(/deeper/)
    expect(() => fingerprintOf({ '\u00e9': 1, 'e\u0301': 2 })).toThrow(/spelling/)
    const shared = { a: 1 }
    expect(fingerprintOf([shared, shared])).toBe(fingerprintOf([{ a: 1 }, { a: 1 }]))
  })
})

describe('fingerprintOfJson', () => {
  it('does not see spaces, order and the spelling of numbers', () => {
    const same = ['{"a":1,"b":[0.5]}', ' { "b" : [ 5e-1 ], "a" : 1.0 } ', '{"a":10e-1,"b":[0.50]}']
    expect(new Set(same.map(fingerprintOfJson)).size).toBe(1)
    expect(fingerprintOfJson('{"a":1,"b":[0.5]}')).toBe(fingerprintOf({ a: 1, b: [0.5] }))
  })

  it('sees digits that a number would lose, and digits in text for what they are', () => {
    const different = [
      '9007199254740992',
      '9007199254740993',
      '0.1',
      '0.10000000000000000001',
      '1e400',
      '1e401',
      '1e-400',
      '0',
    ]
    expect(new Set(different.map(fingerprintOfJson)).size).toBe(different.length)
    expect(fingerprintOfJson('{"id":"9007199254740993"}')).toBe(fingerprintOfJson('{ "id": "9007199254740993" }'))
  })

  it('takes text that is no JSON, or has no canonical form, as it is', () => {
    const texts = ['', 'a=1&b=2', '{"a":', '"\\ud800"', '{"\\u00e9":1,"e\\u0301":2}']
    expect(new Set(texts.map(fingerprintOfJson)).size).toBe(texts.length)
    expect(fingerprintOfJson('a=1')).toBe(fingerprintOfJson('a=1'))
  })
})

describe('plainCodec', () => {
  it('carries plain data exactly, -0 and spelling too', () => {
    fc.assert(
      fc.property(plain, (value) => {
        const back = plainCodec.decode(plainCodec.encode(value))
        expect(back).toStrictEqual(value)
        expect(plainCodec.encode(back)).toBe(plainCodec.encode(value))
      }),
    )
    expect(Object.is(plainCodec.decode(plainCodec.encode(-0)), -0)).toBe(true)
    expect(plainCodec.decode(plainCodec.encode(undefined))).toBe(undefined)
    expect(plainCodec.decode(plainCodec.encode('\u00e9'))).not.toBe(plainCodec.decode(plainCodec.encode('e\u0301')))
  })

  it.each(unfit)('refuses %s inside a result', (_, value) => {
    expect(() => plainCodec.encode({ a: [value] })).toThrow(/^result\.a\[0\]/)
  })

  it('refuses an undefined member, which would be missing in the repeat', () => {
    expect(() => plainCodec.encode({ a: undefined })).toThrow(/^result\.a must be plain data, and is undefined/)
  })
})

describe('keyOf', () => {
  it('never makes one key of two lists of parts', () => {
    const part = fc.string({
      unit: fc.constantFrom('a', ':', '%', '3', 'A', '2', '5', 'é'),
      minLength: 1,
      maxLength: 5,
    })
    const parts = fc.array(part, { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(parts, parts, (left, right) => {
        expect(keyOf(...left) === keyOf(...right)).toBe(JSON.stringify(left) === JSON.stringify(right))
      }),
    )
    expect(keyOf('a:b', 'c')).not.toBe(keyOf('a', 'b:c'))
  })

  it('refuses what is missing, empty or too long', () => {
    for (const parts of [[], [''], ['tenant', ''], [undefined], [7], ['x'.repeat(513)]]) {
      expect(() => keyOf(...(parts as string[]))).toThrow(/must/)
    }
  })
})

it('sha256 is that of the platform', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(sha256(bytes)).toBe(createHash('sha256').update(bytes).digest('hex'))
    }),
  )
  for (const length of [55, 56, 63, 64, 65, 119, 120, 1_000_000]) {
    const text = 'ä'.repeat(length)
    expect(sha256(text)).toBe(createHash('sha256').update(text).digest('hex'))
  }
})
