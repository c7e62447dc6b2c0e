// Who gets the write lock of a shared SQLite file: four processes, each answer on the disk (synchronous = FULL), on one key
// and on many, through the store and with SQLite's own busy handler.
//
//   npx tsx bench/sqlite-fairness/main.ts [--seconds 30] [--processes 4]
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Task } from './worker.js'

const { values } = parseArgs({ options: { seconds: { type: 'string' }, processes: { type: 'string' } } })
const seconds = Number(values.seconds ?? 30)
const processes = Number(values.processes ?? 4)

const worker = fileURLToPath(new URL('./worker.ts', import.meta.url))
const loader = createRequire(import.meta.url).resolve('tsx')
const STARTUP_MS = 3_000

for (const keys of ['one', 'many'] as const) {
  for (const subject of ['store', 'busy handler'] as const) {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-fairness-'))
    const startAtMs = Date.now() + STARTUP_MS
    const tasks = Array.from({ length: processes }, (_, index): Task => {
      return { path: join(folder, 'leases.db'), subject, keys, name: `process ${index + 1}`, startAtMs, seconds }
    })
    const waits = await Promise.all(tasks.map(run))
    rmSync(folder, { recursive: true })
    const total = waits.reduce((sum, one) => sum + one.length, 0)
    const row = (metric: string, unit: string, value: number) =>
      console.log(JSON.stringify({ bench: 'sqlite-fairness', subject: `${subject}, ${keys} key`, metric, unit, value }))
    row('grants', '1/s', Math.round(total / seconds))
    row('least share', '%', round((100 * Math.min(...waits.map((one) => one.length))) / total))
    row('greatest share', '%', round((100 * Math.max(...waits.map((one) => one.length))) / total))
    row('p50 wait', 'ms', round(quantile(waits.flat(), 0.5)))
    row('p99 wait', 'ms', round(quantile(waits.flat(), 0.99)))
    row('p99 wait of the worst process', 'ms', round(Math.max(...waits.map((one) => quantile(one, 0.99)))))
    row('longest wait', 'ms', round(Math.max(...waits.flat())))
  }
}

function run(task: Task): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', loader, worker, JSON.stringify(task)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.on('data', (part) => {
      text += part
    })
    child.on('exit', (code) => (code === 0 ? resolve(JSON.parse(text).waits) : reject(new Error(`worker: ${code}`))))
  })
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}

function quantile(list: readonly number[], part: number): number {
  const sorted = [...list].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}
