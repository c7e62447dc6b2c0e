// Every example in the docs, the READMEs and the doc comments is compiled as a user would compile it, and run. An example is a
// module of its own; names that it does not import come from examples/prelude.ts. A block that cannot run here is marked
// ```ts no-run: it is compiled only.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { fresh } from './examples/prelude.js'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const out = join(root, '.cache/examples')

interface Example {
  readonly from: string
  readonly code: string
  readonly runs: boolean
}

/** The contract shows stores that are still to come, and decisions show what was rejected. */
const NOT_EXAMPLES = ['docs/design.md', 'docs/adr']

const files = (folder: string): string[] =>
  readdirSync(folder).flatMap((name) => {
    if (name === 'node_modules' || name === 'dist' || name.startsWith('.')) return []
    const path = join(folder, name)
    return statSync(path).isDirectory() ? files(path) : [path]
  })

const inMarkdown = (text: string, from: string): Example[] =>
  [...text.matchAll(/^```ts( no-run)?\n([\s\S]*?)^```/gm)].map(([, noRun, code = '']) => ({
    from,
    code,
    runs: noRun === undefined,
  }))

const inComments = (text: string, from: string): Example[] =>
  [...text.matchAll(/^ *\/\*\*[\s\S]*?\*\//gm)].flatMap(([comment]) =>
    inMarkdown(comment.replaceAll(/^ *\* ?/gm, ''), from),
  )

const examples = files(root)
  .filter((path) => !NOT_EXAMPLES.some((name) => relative(root, path).startsWith(name)))
  .flatMap((path) => {
    const from = relative(root, path)
    if (path.endsWith('.md')) return inMarkdown(readFileSync(path, 'utf8'), from)
    return /^packages\/[^/]+\/src\/.*\.ts$/.test(from) ? inComments(readFileSync(path, 'utf8'), from) : []
  })

rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
const named = examples.map((example, i) => ({
  ...example,
  path: join(out, `${String(i).padStart(3, '0')}-${example.from.replaceAll(/\W+/g, '-')}.ts`),
}))
for (const { path, code, from } of named) writeFileSync(path, `// ${from}\n${code}\nexport {}\n`)
writeFileSync(
  join(out, 'tsconfig.json'),
  JSON.stringify({
    compilerOptions: {
      target: 'es2022',
      module: 'nodenext',
      lib: ['es2023', 'esnext.disposable'],
      types: ['node'],
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      // Of a client that the tests install by itself, and of one whose types come with those of Node.
      paths: {
        '@kubernetes/client-node': [
          join(root, 'packages/holdfast/test/clients/node_modules/@kubernetes/client-node/dist/index.d.ts'),
        ],
        undici: [join(root, 'node_modules/undici-types/index.d.ts')],
      },
    },
    files: [...named.map(({ path }) => path), join(root, 'scripts/examples/prelude.ts')],
  }),
)
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', out], { stdio: 'inherit' })
console.log(`${named.length} examples compile`)

let failed = 0
let ran = 0
for (const { path, from, runs } of named) {
  if (!runs) continue
  const done = fresh()
  try {
    await Promise.race([import(pathToFileURL(path).href), late(from)])
    ran++
  } catch (error) {
    failed++
    console.error(`the example of ${from} fails (${relative(root, path)}):`, error)
  }
  await done()
}
console.log(`${ran} examples run, ${failed} fail`)
process.exit(failed === 0 && ran > 0 ? 0 : 1)

/** An example that does not end is one that fails. */
function late(from: string): Promise<never> {
  return new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`the example of ${from} does not end`)), 20_000).unref(),
  )
}
