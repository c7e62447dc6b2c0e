// Who gets the write lock of a shared SQLite file: four processes, each answer on the disk (synchronous = FULL), all on one key
// or each on its own, through the library, through the bare store, and with SQLite's own busy handler, which starves.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { percentile } from '../harness/statistics.js'
import { Scratch } from '../measure/scratch.js'
import type { Task } from '../sqlite-fairness/worker.js'

const PROCESSES = 4
/** All begin at one instant, once the last has surely started. */
const STARTUP_MS = 3_000

const program = (name: string) => fileURLToPath(new URL(`../sqlite-fairness/${name}.ts`, import.meta.url))
const loader = createRequire(import.meta.url).resolve('tsx')

const keysOf = { one: 'one key', many: 'many keys' } as const
const ways = { library: 'through-client', store: 'worker', 'busy handler': 'worker' } as const
type Way = keyof typeof ways
const nameOf = (way: Way, keys: Task['keys']) => `${way}, ${keysOf[keys]}`

/** Runs one process to its end. Gives how long each of its grants was waited for, in ms. */
function waitsOf(way: Way, task: Omit<Task, 'subject'>): Promise<number[]> {
  const args = ['--import', loader, program(ways[way]), JSON.stringify({ ...task, subject: way })]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve((JSON.parse(text) as { waits: number[] }).waits)
      else reject(new Error(`a process of ${way} ended with ${code}`))
    })
  })
}

async function compete(way: Way, keys: Task['keys'], seconds: number): Promise<Metrics> {
  const scratch = new Scratch()
  const startAtMs = Date.now() + STARTUP_MS
  const tasks = Array.from({ length: PROCESSES }, (_, i) => ({
    path: scratch.file('leases.db'),
    keys,
    name: `process ${i + 1}`,
    startAtMs,
    seconds,
  }))
  try {
    return summary(await Promise.all(tasks.map((task) => waitsOf(way, task))), seconds)
  } finally {
    scratch.remove()
  }
}

function summary(waits: readonly number[][], seconds: number): Metrics {
  const all = waits.flat()
  const shares = waits.map((own) => (100 * own.length) / Math.max(1, all.length))
  return {
    grants: { value: all.length / seconds, unit: '/s' },
    'least share': { value: Math.min(...shares), unit: '%' },
    'greatest share': { value: Math.max(...shares), unit: '%' },
    'median wait': { value: percentile(all, 0.5), unit: 'ms' },
    'p99 wait': { value: percentile(all, 0.99), unit: 'ms' },
    'p99 wait of the worst process': { value: Math.max(...waits.map((own) => percentile(own, 0.99))), unit: 'ms' },
    'longest wait': { value: percentile(all, 1), unit: 'ms' },
  }
}

const subject = (way: Way, keys: Task['keys']): Subject => ({
  name: nameOf(way, keys),
  floor: nameOf('busy handler', keys),
  run: (seconds) => compete(way, keys, seconds),
})

const both = (['one', 'many'] as const).flatMap((keys) => [
  subject('busy handler', keys),
  subject('store', keys),
  subject('library', keys),
])

export default {
  name: 'sqlite-fairness',
  title: 'Four processes share an SQLite file (synchronous = FULL): shares of the grants, and waits',
  floor: nameOf('busy handler', 'one'),
  seconds: 30,
  subjects: both,
  targets: (['one', 'many'] as const).flatMap((keys) => [
    { subject: nameOf('library', keys), metric: 'least share', of: 'median' as const, atLeast: 15 },
    { subject: nameOf('library', keys), metric: 'p99 wait', of: 'median' as const, atMost: 500 },
  ]),
  notes: [
    'A process that never got a grant has a share of 0 and no waits. The busy handler favours whoever has just written: more',
    'grants, fewer changes of hands; read its rate with its shares.',
  ],
} satisfies Benchmark
