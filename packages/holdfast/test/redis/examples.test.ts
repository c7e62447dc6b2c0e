// The examples of the page of this store and of its doc comments, run as they stand, on a real server: where they connect to the
// usual port, they are given the port of the test.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import ts from 'typescript'
import { afterEach, describe, expect, it } from 'vitest'
import * as idempotency from '../../src/idempotency/index.js'
import * as holdfast from '../../src/index.js'
import * as redis from '../../src/stores/redis/index.js'
import { Bench } from './harness.js'
import { cli } from './servers.js'

const bench = Bench.here()
const on = (...command: string[]) => cli(bench.port, ...command)

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const source = 'packages/holdfast/src/stores/redis'
const examplesOf = (text: string) =>
  [...text.matchAll(/^```ts(?: no-run)?\n([\s\S]*?)^```/gm)].map(([, code = '']) => code)
const inComments = (text: string) =>
  [...text.matchAll(/^ *\/\*\*[\s\S]*?\*\//gm)].flatMap(([comment]) => examplesOf(comment.replaceAll(/^ *\* ?/gm, '')))

const text = readFileSync(`${root}/docs/stores/redis.md`, 'utf8')
const page = examplesOf(text)
const comments = readdirSync(`${root}/${source}`).flatMap((name) =>
  inComments(readFileSync(`${root}/${source}/${name}`, 'utf8')).map((code): [string, string] => [name, code]),
)

/** What an example leaves open. */
const opened: { disconnect(): void }[] = []
afterEach(() => {
  for (const client of opened.splice(0)) client.disconnect()
})

class RedisHere extends Redis {
  constructor(options: object = {}) {
    super({ port: bench.port, ...options })
    opened.push(this)
  }
}

const modules: Readonly<Record<string, object>> = {
  holdfast,
  'holdfast/redis': redis,
  ioredis: { Redis: RedisHere },
}

/** Runs an example. Names that it neither imports nor declares are what a reader would have. */
async function run(code: string): Promise<{ charged: number[]; reports: number }> {
  const seen = { charged: [] as number[], reports: 0 }
  const leases = holdfast.createLeases({ store: redis.redisStore(new RedisHere()) })
  const given: Record<string, unknown> = {
    ...holdfast,
    ...idempotency,
    ...redis,
    leases,
    writeReport: async () => {
      seen.reports++
    },
    charge: async (amount: number) => {
      seen.charged.push(amount)
      return { amount }
    },
  }
  const script = ts
    .transpile(code, { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 })
    .replaceAll(/^import \{([^}]*)\} from '([^']+)';?.*$/gm, "const {$1} = modules['$2'];")
  const AsyncFunction = (async () => {}).constructor as new (
    ...text: string[]
  ) => (...values: unknown[]) => Promise<void>
  // In a block of its own, an example may declare a name that it would else be given.
  await new AsyncFunction('modules', ...Object.keys(given), `{${script}\n}`)(modules, ...Object.values(given))
  await leases.close()
  return seen
}

describe('the page', () => {
  it('has the two examples that are run here', () => {
    expect(page).toHaveLength(2)
  })

  it('names the versions of the clients that the tests run with', () => {
    const { devDependencies } = JSON.parse(readFileSync(`${root}/packages/holdfast/package.json`, 'utf8'))
    const versionOf = (name: string) => devDependencies[name].split('@').at(-1)
    const [ioredis, redis] = ['ioredis', 'redis'].map(
      (name) => `${name} ${versionOf(name)} and ${versionOf(`${name}5`)}`,
    )
    expect(text.replaceAll(/\s+/g, ' ')).toContain(`The tests run with ${ioredis}, ${redis}.`)
  })

  it('setup: a hold, and all is closed', async () => {
    expect(await run(page[0] ?? '')).toMatchObject({ reports: 1 })
    expect(await on('exists', 'holdfast:report')).toBe('1')
  })

  it('a fence: writes under a grant', async () => {
    await run(page[1] ?? '')
    expect(await on('get', '{invoice:42}:paid')).toBe('yes')
    expect(await on('hget', '{invoice:42}:totals', 'paid')).toBe('100')
    expect(await on('exists', 'holdfast-fence:birth', 'holdfast-fence:of:invoice:42')).toBe('2')
  })
})

describe('the doc comments', () => {
  it('have an example for each factory', () => {
    expect(comments.map(([name]) => name)).toEqual(['fence.ts', 'records.ts', 'store.ts'])
  })

  it.each(comments)('%s', async (name, code) => {
    const { charged, reports } = await run(code)
    if (name === 'records.ts') expect(charged).toEqual([100])
    if (name === 'store.ts') expect(reports).toBe(1)
    if (name === 'fence.ts') expect(await on('get', '{invoice:42}:paid')).toBe('yes')
  })
})
