// The SQLite store among processes: making the file at the same time, contending for one key, being killed, ending.
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { checkClients, loadDriver, newerNode } from './drivers.js'
import { request, waitUntil } from './harness.js'
import type { Task } from './worker.js'

const loader = createRequire(import.meta.url).resolve('tsx')
const program = fileURLToPath(new URL('./worker.ts', import.meta.url))

interface Worker {
  readonly child: ChildProcess
  readonly said: unknown[]
  /** Its exit code, and what it wrote to stderr. */
  readonly ended: Promise<{ code: number | null; errors: string }>
}

let folder: string
let path: string
const workers: Worker[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-processes-'))
  path = join(folder, 'leases.db')
})

afterEach(() => {
  for (const { child } of workers.splice(0)) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

function start(task: Partial<Task> & Pick<Task, 'job'>): Worker {
  const full: Task = { driver: 'libsql', path, name: 'worker', rounds: 0, ...task }
  const node = full.driver === 'node:sqlite' ? newerNode : process.execPath
  const child = spawn(node, ['--no-warnings', '--import', loader, program, JSON.stringify(full)], { stdio: 'pipe' })
  const said: unknown[] = []
  let text = ''
  let errors = ''
  child.stdout.on('data', (part) => {
    text += part
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    said.push(...lines.map((line) => JSON.parse(line)))
  })
  child.stderr.on('data', (part) => {
    errors += part
  })
  const ended = new Promise<{ code: number | null; errors: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, errors }))
  })
  const worker = { child, said, ended }
  workers.push(worker)
  return worker
}

const fine = { code: 0, errors: '' }

describe('processes', () => {
  it('C44 six processes that make the file at the same time all get their lease', async () => {
    const all = Array.from({ length: 6 }, (_, index) => start({ job: 'open', name: `p${index}` }))
    expect(await Promise.all(all.map(({ ended }) => ended))).toEqual(all.map(() => fine))
    expect(all.map(({ said }) => said)).toEqual(all.map(() => ['granted']))
  })

  it('C44 G1 G2 processes of all three drivers take, renew and give back one key: never two, no BUSY, tokens rise', async () => {
    checkClients()
    const drivers = ['libsql', 'libsql', 'better-sqlite3', 'better-sqlite3', 'node:sqlite', 'node:sqlite'] as const
    const all = drivers.map((driver, index) => start({ job: 'contend', driver, name: `p${index}`, rounds: 60 }))
    expect(await Promise.all(all.map(({ ended }) => ended))).toEqual(all.map(() => fine))
    const said = all.flatMap((worker) => worker.said) as { overlaps: number; tokens: number[] }[]
    expect(said.map(({ overlaps }) => overlaps)).toEqual(all.map(() => 0))
    const tokens = said.flatMap((one) => one.tokens)
    expect(new Set(tokens).size).toBe(60 * drivers.length)
    for (const { tokens } of said) expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  })

  it.each(['libsql', 'better-sqlite3', 'node:sqlite'] as const)(
    'C44 %s: killed while writing, again and again: nobody is blocked and the file is sound',
    async (driver) => {
      if (driver !== 'libsql') checkClients()
      const Database = await loadDriver('libsql')
      const store = sqliteStore({ path, Database })
      for (let round = 0; round < 4; round++) {
        const { child, said } = start({ job: 'write', driver, name: `p${round}` })
        await waitUntil(() => said.length > 2)
        child.kill('SIGKILL')
        const answer = await store.acquire(request(`mine ${round}`, 'a'))
        expect(answer.is).toBe('granted')
      }
      await store.close()
      const db = new Database(path)
      expect(Object.values(db.prepare('PRAGMA integrity_check').get() as object)[0]).toBe('ok')
      db.close()
    },
  )

  it('G9 a process that has a store open, and watched, ends by itself', async () => {
    const { ended, said } = start({ job: 'end' })
    expect(await ended).toEqual(fine)
    expect(said).toEqual(['done'])
  })

  it('C44 a file that may not be written is said, with what to do', async () => {
    await sqliteStore({ path, Database: await loadDriver('libsql') }).close()
    chmodSync(path, 0o444)
    chmodSync(folder, 0o555)
    for (const driver of ['libsql', 'better-sqlite3'] as const) {
      const { ended, said } = start({ job: 'unwritable', driver })
      await ended
      expect(said).toEqual([
        { outcome: 'none', message: expect.stringMatching(/leases\.db cannot be (written|opened)/) },
      ])
    }
    chmodSync(folder, 0o755)
  })
})
