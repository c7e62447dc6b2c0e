// Sixteen workers in four processes want one lease in Redis. The floor is the fairest that Redis itself has, BLPOP of a permit,
// which is lost when its holder dies. Once the worker asks again at once, once it pauses, so that another has to take over.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { percentile } from '../harness/statistics.js'
import { emptyRedis, redisPort } from '../measure/redis.js'
import { peers } from '../peers/index.js'
import type { Task } from '../redis-contention/worker.js'

const PROCESSES = 4
const WORKERS = 4
const HOLD_MS = 1
const STARTUP_MS = 3_000

const program = fileURLToPath(new URL('../redis-contention/worker.ts', import.meta.url))
const loader = createRequire(import.meta.url).resolve('tsx')

/** What the clients send, as against what scripts call. */
const COMMANDS: Record<Task['way'], readonly string[]> = {
  BLPOP: ['blpop', 'rpush'],
  'SET NX PX': ['set', 'eval'],
  library: ['evalsha', 'eval', 'subscribe', 'unsubscribe', 'ping'],
  peer: [], // what the library says of itself
}

function waitsOf(task: Task): Promise<number[][]> {
  const args = ['--import', loader, program, JSON.stringify(task)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve((JSON.parse(text) as { waits: number[][] }).waits)
      else reject(new Error(`a process of ${task.way} ended with ${code}`))
    })
  })
}

async function compete(way: Task['way'], pauseMs: number, seconds: number, peer?: Task['peer']): Promise<Metrics> {
  const client = await emptyRedis()
  await client.config('RESETSTAT')
  if (way === 'BLPOP') await client.rpush('resource', 'permit')
  const task = { port: await redisPort(), way, workers: WORKERS, holdMs: HOLD_MS, pauseMs, seconds, peer }
  const startAtMs = Date.now() + STARTUP_MS
  const perProcess = await Promise.all(Array.from({ length: PROCESSES }, () => waitsOf({ ...task, startAtMs })))
  const stats = await client.info('commandstats')
  client.disconnect()
  const { sends = COMMANDS[way] } = peers.find(({ name }) => name === peer?.name) ?? {}
  const sent = sends.reduce((sum, name) => {
    const [, calls = '0'] = new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats) ?? []
    return sum + Number(calls)
  }, 0)
  return summary(perProcess.flat(), sent, seconds)
}

function summary(waits: readonly number[][], commands: number, seconds: number): Metrics {
  const all = waits.flat()
  const counts = waits.map((own) => own.length)
  const sum = counts.reduce((a, b) => a + b, 0)
  const squares = counts.reduce((a, b) => a + b * b, 0)
  return {
    acquisitions: { value: all.length / seconds, unit: '/s' },
    'median wait': { value: percentile(all, 0.5), unit: 'ms' },
    'p99 wait': { value: percentile(all, 0.99), unit: 'ms' },
    'longest wait': { value: percentile(all, 1), unit: 'ms' },
    'Jain fairness': { value: (sum * sum) / (counts.length * squares), unit: '' },
    commands: { value: commands / Math.max(1, all.length), unit: '/acquisition' },
  }
}

const pauses = { 'no pause': 0, 'pause of 5 ms': 5 }
const nameOf = (way: string, pause: string) => `${way}, ${pause}`

const subject = (way: Task['way'], pause: string, pauseMs: number): Subject => ({
  name: nameOf(way, pause),
  floor: nameOf('BLPOP', pause),
  run: (seconds) => compete(way, pauseMs, seconds),
})

const peerSubject = (name: string, retryMs: number | undefined, pause: string, pauseMs: number): Subject => ({
  name: nameOf(retryMs === undefined ? name : `${name} every ${retryMs} ms`, pause),
  floor: nameOf('BLPOP', pause),
  run: (seconds) => compete('peer', pauseMs, seconds, { name, retryMs }),
})

export default {
  name: 'redis-contention',
  title: 'Sixteen workers in four processes want one lease in Redis, each for 1 ms',
  floor: nameOf('BLPOP', 'no pause'),
  seconds: 3,
  subjects: Object.entries(pauses).flatMap(([pause, pauseMs]) =>
    (['BLPOP', 'SET NX PX', 'library'] as const).map((way) => subject(way, pause, pauseMs)),
  ),
  peers: Object.entries(pauses).flatMap(([pause, pauseMs]) =>
    peers.flatMap(({ name }) => [undefined, 5].map((retryMs) => peerSubject(name, retryMs, pause, pauseMs))),
  ),
  targets: Object.keys(pauses).flatMap((pause) => [
    { subject: nameOf('library', pause), metric: 'acquisitions', of: 'ratio' as const, atLeast: 0.95 },
    { subject: nameOf('library', pause), metric: 'p99 wait', of: 'ratio' as const, atMost: 1.3 },
    { subject: nameOf('library', pause), metric: 'Jain fairness', of: 'median' as const, atLeast: 0.99 },
    { subject: nameOf('library', pause), metric: 'commands', of: 'median' as const, atMost: 3 },
  ]),
  notes: [
    'A permit of BLPOP is lost for ever when its holder dies, and has no token. SET NX PX polls every 5 ms, other libraries as',
    'often as they do by default, and every 5 ms; all retry without limit.',
  ],
} satisfies Benchmark
