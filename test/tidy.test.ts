// The repository's own rules, as tests: what a reviewer would otherwise have to remember.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { conformance } from '../packages/holdfast/src/testing/index.js'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const library = join(root, 'packages/holdfast')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** All files that git tracks or would track. */
const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)))
const sources = tracked.filter((path) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path))
const inLibrary = sources.filter((path) => path.startsWith('packages/holdfast/'))

/** What a file imports, as paths from the root where they are relative. */
function importsOf(path: string): string[] {
  const { importedFiles } = ts.preProcessFile(read(path), true, true)
  return importedFiles.map(({ fileName }) =>
    fileName.startsWith('.') ? normalize(join(dirname(path), fileName)).replace(/\.js$/, '.ts') : fileName,
  )
}

/** The code of a file without comments and text, so that prose may speak of what code must not do. */
function codeOf(path: string): string {
  const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true)
  const printed = ts.createPrinter({ removeComments: true }).printFile(source)
  return printed.replaceAll(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''")
}

const stores = readdirSync(join(library, 'src/stores'))
const exported: Record<string, { types: string; default: string } | string> = JSON.parse(
  read('packages/holdfast/package.json'),
).exports
const entries = Object.entries(exported).flatMap(([name, target]) =>
  typeof target === 'string' ? [] : [{ name, ...target }],
)
const sourceOf = (built: string) => built.replace('./dist/', 'packages/holdfast/src/').replace(/\.js$/, '.ts')

describe('layers', () => {
  const rules = [
    { of: 'lease', may: ['lease', 'store'] },
    { of: 'store', may: ['store', 'lease/errors', 'lease/keys', 'lease/clock', 'lease/random'] },
    { of: 'fence', may: ['fence', 'store/contract', 'lease/errors', 'lease/keys'] },
    ...stores.map((name) => ({
      of: `stores/${name}`,
      may: [
        `stores/${name}`,
        'store',
        'fence',
        'idempotency/contract',
        'idempotency/protocol',
        'idempotency/sha256',
        'lease/errors',
        'lease/keys',
        'lease/clock',
        'lease/random',
        'lease/timeline',
      ],
    })),
    { of: 'idempotency', may: ['idempotency', 'lease', 'store/contract'] },
    { of: 'http', may: ['http', 'idempotency', 'fence', 'lease', 'store/contract'] },
  ]
  it.each(rules)('$of imports only from $may', ({ of, may }) => {
    const src = 'packages/holdfast/src/'
    const files = inLibrary.filter((path) => path.startsWith(`${src}${of}/`))
    expect(files.length).toBeGreaterThan(0)
    const wrong = files.flatMap((path) =>
      importsOf(path)
        .filter(
          (to) =>
            to.startsWith(src) && !may.some((name) => to === `${src}${name}.ts` || to.startsWith(`${src}${name}/`)),
        )
        .map((to) => `${path} imports ${to}`),
    )
    expect(wrong).toEqual([])
  })

  it('the core and the memory store import nothing from Node, so that they run anywhere', () => {
    const portable = inLibrary.filter((path) =>
      /src\/(index\.|lease\/|store\/|fence\/|idempotency\/|http\/|stores\/memory\/|testing\/)/.test(path),
    )
    const wrong = portable.filter((path) => importsOf(path).some((to) => to.startsWith('node:')))
    expect(wrong).toEqual([])
  })

  it('the library imports no package', () => {
    const wrong = inLibrary.flatMap((path) =>
      importsOf(path).filter((to) => !to.startsWith('packages/') && !to.startsWith('node:')),
    )
    expect(wrong).toEqual([])
    const { dependencies, peerDependencies, optionalDependencies } = JSON.parse(read('packages/holdfast/package.json'))
    expect([dependencies, peerDependencies, optionalDependencies]).toEqual([undefined, undefined, undefined])
  })

  it('only clock.ts reads time or sets timers, only random.ts is random', () => {
    const forbidden =
      /\b(Date\.now|new Date\b|performance\.now|setTimeout|setInterval|process\.hrtime|Math\.random|crypto\.|randomUUID|getRandomValues)/
    const wrong = inLibrary.filter((path) => !/lease\/(clock|random)\.ts$/.test(path) && forbidden.test(codeOf(path)))
    expect(wrong).toEqual([])
  })
})

describe('files', () => {
  it('every file of the library is reached from an entry', () => {
    const reached = new Set<string>()
    const visit = (path: string) => {
      if (reached.has(path)) return
      reached.add(path)
      for (const to of importsOf(path)) if (to.startsWith('packages/')) visit(to)
    }
    for (const entry of entries) visit(sourceOf(entry.default))
    expect(inLibrary.filter((path) => !reached.has(path))).toEqual([])
  })

  it('every source file opens with the sentence that justifies it', () => {
    expect(sources.filter((path) => !/^(#!.*\n)?\/\/ [A-Z`]/.test(read(path)))).toEqual([])
  })

  it('no file is longer than one idea', () => {
    const longest = (path: string) => (/\/test\//.test(path) ? 600 : 400)
    const long = tracked.filter((path) => /\.(ts|mjs)$/.test(path) && read(path).split('\n').length > longest(path))
    expect(long).toEqual([])
  })

  it('no test is skipped, alone or repeated until it passes, and none sleeps', () => {
    // What is naive on purpose may sleep.
    const tests = tracked.filter((path) => /\/test\/.*\.ts$|^test\//.test(path) && !/\/naive-|^test\/tidy/.test(path))
    expect(tests.filter((path) => /\b(it|test|describe)\.(skip|only|todo)\b|retry: *[1-9]/.test(codeOf(path)))).toEqual(
      [],
    )
    expect(tests.filter((path) => /await (sleep|delay)\(\d|from '(node:)?timers\/promises'/.test(read(path)))).toEqual(
      [],
    )
  })

  it('nothing tells of the machine that it was written on', () => {
    const text = tracked.filter(
      (path) => /\.(ts|mjs|md|json|yml|sql)$|\.ci\/run$/.test(path) && path !== 'test/tidy.test.ts',
    )
    const wrong = text.filter((path) =>
      /\/work\/|\/tmp\/bash|registry\.npmjs|_authToken|"resolved": "http/.test(read(path)),
    )
    expect(wrong).toEqual([])
  })
})

describe('packages', () => {
  it('every export is a built file with types', () => {
    for (const entry of entries) {
      expect(existsSync(join(library, entry.default)), entry.default).toBe(true)
      expect(existsSync(join(library, entry.types)), entry.types).toBe(true)
      expect(existsSync(join(root, sourceOf(entry.default))), sourceOf(entry.default)).toBe(true)
    }
  })

  it('the public surface is the one written down in public-api.txt (npx vitest run test/tidy.test.ts -u writes it)', async () => {
    const lines = publicApi().map(({ line }) => `${line}\n`)
    await expect(lines.join('')).toMatchFileSnapshot(join(library, 'public-api.txt'))
  })

  it('everything public has its doc comment', () => {
    expect(
      publicApi()
        .filter(({ documented }) => !documented)
        .map(({ line }) => line),
    ).toEqual([])
  })

  it('every public function shows how it is used', () => {
    // Conversions and guards of the fences and stores come with their store's example.
    expect(
      publicApi()
        .filter(({ kind, hasExample }) => kind === 'function' && !hasExample)
        .map(({ line }) => line),
    ).toEqual([])
  })
})

describe('docs', () => {
  it('every error code has its class and its row', () => {
    const codes = [...read('packages/holdfast/src/lease/errors.ts').matchAll(/^ {2}\| '([A-Z_]+)'$/gm)].map(
      ([, code]) => code,
    )
    expect(codes.length).toBeGreaterThan(5)
    const page = read('docs/reference/errors.md')
    expect(codes.filter((code) => !page.includes(`\`${code}\``))).toEqual([])
  })

  it('every event has its row', () => {
    const types = [...read('packages/holdfast/src/lease/events.ts').matchAll(/readonly type: '([a-z-]+)'/g)].map(
      ([, type]) => type,
    )
    expect(types.length).toBeGreaterThan(5)
    const page = read('docs/reference/events.md')
    expect(types.filter((type) => !page.includes(`\`${type}\``))).toEqual([])
  })

  it('every store has its page with the five headings, its row in the README and its conformance run', () => {
    for (const name of stores) {
      const page = read(`docs/stores/${name}.md`)
      expect(page.match(/^## .+$/gm), name).toEqual([
        '## Setup',
        '## Guarantees',
        '## How it works',
        '## Options',
        '## Limits',
      ])
      expect(read('README.md'), name).toMatch(new RegExp(`\\| \\[${name}\\]`, 'i'))
      expect(read(`packages/holdfast/test/conformance/${name}.test.ts`), name).toMatch(/Conformance\(/)
    }
  })

  it('every guarantee that a store can keep is cited by a conformance case', () => {
    const cited = new Set(conformance.map(({ guarantee }) => guarantee))
    expect(['G1', 'G2', 'G3', 'G4', 'G6', 'G8', 'G11', 'G13'].filter((name) => !cited.has(name as never))).toEqual([])
  })

  it('every test that a page points at, by file and title, is there', () => {
    // `redis/faults.test.ts`: a part of its title
    const named = tracked
      .filter((path) => path.endsWith('.md'))
      .flatMap((path) =>
        [...read(path).matchAll(/`((?:[\w-]+\/)+[\w.-]+\.ts)`: ([^|;`\n]+)/g)].map(([, file = '', title = '']) => ({
          path,
          file: ['packages/holdfast/test', 'packages/holdfast', '.']
            .map((folder) => join(folder, file))
            .find((at) => existsSync(join(root, at))),
          title: title.trim(),
        })),
      )
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter(({ file, title }) => file === undefined || !read(file).includes(title))).toEqual([])
  })

  it('no link leads nowhere', () => {
    const broken = tracked
      .filter((path) => path.endsWith('.md'))
      .flatMap((path) =>
        [...read(path).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)/g)]
          .map(([, to = '']) => join(dirname(path), to))
          .filter((to) => !existsSync(join(root, to)))
          .map((to) => `${path} → ${relative('.', to)}`),
      )
    expect(broken).toEqual([])
  })
})

/** Every name that an entry gives, with its kind. */
let known: ReturnType<typeof readPublicApi> | undefined
function publicApi() {
  known ??= readPublicApi()
  return known
}

function readPublicApi(): { line: string; kind: string; documented: boolean; hasExample: boolean }[] {
  const program = ts.createProgram(
    entries.map((entry) => join(root, sourceOf(entry.default))),
    {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      strict: true,
      types: ['node'],
    },
  )
  const checker = program.getTypeChecker()
  return entries.flatMap((entry) => {
    const file = program.getSourceFile(join(root, sourceOf(entry.default)))
    const module = file && checker.getSymbolAtLocation(file)
    return checker
      .getExportsOfModule(module ?? never(entry.name))
      .map((symbol) => {
        const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
        const kind =
          target.flags & ts.SymbolFlags.Function
            ? 'function'
            : target.flags & ts.SymbolFlags.Class
              ? 'class'
              : target.flags & ts.SymbolFlags.Value
                ? 'value'
                : 'type'
        const entryName = entry.name === '.' ? 'holdfast' : entry.name.replace('./', 'holdfast/')
        return {
          line: `${entryName} ${kind} ${symbol.name}`,
          kind,
          documented: target.getDocumentationComment(checker).length > 0,
          hasExample: target.getJsDocTags().some((tag) => tag.name === 'example'),
        }
      })
      .sort((a, b) => (a.line < b.line ? -1 : 1))
  })
}

function never(name: string): never {
  throw new Error(`${name} is no module`)
}
