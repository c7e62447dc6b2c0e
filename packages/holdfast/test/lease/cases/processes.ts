// Cases about whole processes: what Node does to them, and what a signal makes of their leases (C02, C17, C21, C30, C31).
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { createLeases } from '../../../src/index.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { type Kind, type Program, start } from '../programs/program.js'
import { check, fail } from './case.js'

export interface ProcessCase {
  readonly id: `C${string}`
  readonly title: string
  /** What is said of the naive client; undefined where it does as well. */
  readonly naive: RegExp
  run(kind: Kind): Promise<void>
}

const DAY_MS = 86_400_000

/** Loading takes time on a busy machine, work does not: what must come "at once" comes within this. */
const SOON_MS = 4_000

/** Ends within a moment and without a word on stderr; gives what it said. */
async function quietly(program: Program): Promise<readonly string[]> {
  const { code, stderr, lines } = await program.ended
  check(code === 0 && stderr === '', `it ended with ${code}, and said: ${stderr}`)
  return lines
}

/** Another process that wants the lease: this one. */
async function contend(path: string, run: (gotInMs: Promise<number>) => Promise<void>): Promise<void> {
  const leases = createLeases({ store: sqliteStore({ path, Database }) })
  const gotIn = leases.acquire('job', { waitMs: 40_000 }).then(async (lease) => {
    const atMs = Date.now()
    await lease.release()
    return atMs
  })
  gotIn.catch(() => {})
  try {
    await run(gotIn)
  } finally {
    await leases.close()
  }
}

async function inFolder(run: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cases-'))
  try {
    await run(join(folder, 'leases.db'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A worker with the lease, told to stop, and somebody who waits for it. */
async function shutDown(
  kind: Kind,
  how: 'idle' | 'slow' | 'deaf',
  ttlMs: number,
  signal: NodeJS.Signals,
  judge: (program: Program, gotIn: Promise<number>, toldMs: number) => Promise<void>,
): Promise<void> {
  await inFolder(async (path) => {
    const program = start(kind, 'worker', path, how, String(ttlMs))
    try {
      await program.said('working')
      await contend(path, async (gotIn) => {
        const toldMs = Date.now()
        program.kill(signal)
        await judge(program, gotIn, toldMs)
      })
    } finally {
      program.kill('SIGKILL')
      await program.ended
    }
  })
}

export const processCases: ProcessCase[] = [
  ...[40 * DAY_MS, 100 * DAY_MS, 2 ** 31].map(
    (ms): ProcessCase => ({
      id: 'C02',
      title: `a ttl and a wait of ${ms} ms, in real time: no warning, no burst, nothing ends early`,
      naive: /TimeoutOverflowWarning/,
      async run(kind) {
        const lines = await quietly(start(kind, 'long', String(ms)))
        check(lines.join() === 'held true, renewals 0', `it said: ${lines.join()}`)
      },
    }),
  ),
  ...(['store down', 'replies lost', 'key deleted', 'listener throws', 'listener rejects'] as const).map(
    (fault): ProcessCase => ({
      id: 'C17',
      title: `trouble in the background (${fault}) ends no process, and the holder is told`,
      naive: /it ended with 1, and said: .*(down|the reply was lost|the lock was lost|the listener failed)/s,
      async run(kind) {
        const lines = await quietly(start(kind, 'outage', fault))
        check(lines.filter((line) => line === 'lost').length >= 1, 'the holder was not told')
        check(lines.includes('again true') && lines.at(-1) === 'end', `it said: ${lines.join()}`)
      },
    }),
  ),
  {
    id: 'C21',
    title: 'the event loop is blocked past the expiry: lost in the first turn after it, before a renewal is sent',
    naive: /still believes after the block/,
    async run(kind) {
      const lines = await quietly(start(kind, 'blocked'))
      check(lines.includes('next granted'), 'the store did not let the next one in')
      check(lines.includes('held false'), 'it still believes after the block')
      check(lines.includes('aborted true'), 'the signal was not set in the first turn')
      check(lines.includes('renewals after the block 0'), 'a renewal was sent after the block')
      check(lines.includes('error LEASE_LOST 42'), `the loss, or the value, did not reach the caller: ${lines.join()}`)
      check(lines.at(-1) === 'holder next', "the release touched the next one's lease")
    },
  },
  {
    id: 'C30',
    title: 'acquire, release, close: the process ends by itself, within a moment',
    naive: /it lingered for/,
    async run(kind) {
      const program = start(kind, 'ending', 'release')
      const { code, lingeredMs } = await program.ended
      check(code === 0, `it ended with ${code}`)
      check(lingeredMs < SOON_MS, `it lingered for ${lingeredMs} ms`)
    },
  },
  {
    id: 'C30',
    title: '10,000 short leases with a ttl of an hour leave no timers',
    naive: /left 10000 timers/,
    async run(kind) {
      const lines = await quietly(start(kind, 'ending', 'many'))
      const timers = Number(lines[0]?.split(' ')[1])
      check(timers <= 1, `left ${timers} timers`)
    },
  },
  {
    id: 'C31',
    title:
      'SIGTERM while work needs some time: it is told to stop, ends under the lease, and only then another gets in',
    naive: /overlapped with its work/,
    async run(kind) {
      await shutDown(kind, 'slow', 20_000, 'SIGTERM', async (program, gotIn) => {
        const [inMs, endedMs] = await Promise.all([gotIn, program.said('work ended')])
        check(inMs >= endedMs, `another got in ${endedMs - inMs} ms before the end: it overlapped with its work`)
        check(inMs - endedMs < SOON_MS, `another waited for ${inMs - endedMs} ms although the work had ended`)
        const { code, lines } = await program.ended
        check(code === 0 && lines.includes('closed'), `it ended with ${code}: ${lines.join()}`)
      })
    },
  },
  {
    id: 'C31',
    title:
      'SIGTERM while work ignores the stop: close() names the key after the drain, and the lease is left to its ttl',
    naive: /was released under work that still runs/,
    async run(kind) {
      await shutDown(kind, 'deaf', 6_000, 'SIGTERM', async (program, gotIn, toldMs) => {
        let inMs = Number.NaN
        gotIn.then(
          (atMs) => {
            inMs = atMs
          },
          () => {},
        )
        await Promise.race([program.said('not closed'), program.said('closed')])
        if (program.hasSaid('closed')) fail('it was released under work that still runs')
        const refusedMs = await program.said('not closed: DRAIN_TIMEOUT job')
        check(refusedMs - toldMs >= 900, 'the drain was cut short')
        check(Number.isNaN(inMs), 'another got in during the drain')
        // Renewed at the latest within the drain; its ttl then frees it.
        check((await gotIn) - refusedMs < 6_000 + SOON_MS, 'it was not left to its ttl')
        check(inMs - refusedMs > 1_000, 'it was released')
        check(!program.hasSaid('work ended'), 'the work was to go on')
      })
    },
  },
]

/** What the client does, and the naive one may do as well: there is no fault to fail for. */
export const alsoProcesses: Omit<ProcessCase, 'naive'>[] = [
  {
    id: 'C30',
    title: 'a wait that is all there is keeps the process until it has its answer',
    async run(kind) {
      check((await quietly(start(kind, 'ending', 'wait'))).at(-1) === 'token 2', 'it ended without an answer')
    },
  },
  {
    id: 'C30',
    title: 'a lease that was taken and forgotten keeps its process, and is renewed: the documented choice',
    async run(kind) {
      const program = start(kind, 'ending', 'forget')
      await program.said('holder held')
      program.kill('SIGKILL')
      await program.ended
    },
  },
  {
    id: 'C31',
    title: 'SIGTERM of an idle holder: another is in within a moment',
    async run(kind) {
      await shutDown(kind, 'idle', 20_000, 'SIGTERM', async (program, gotIn, toldMs) => {
        const inMs = await gotIn
        check(inMs - toldMs < SOON_MS, `another got in after ${inMs - toldMs} ms`)
        check((await program.ended).code === 0, 'it did not end well')
      })
    },
  },
  {
    id: 'C31',
    title: 'SIGKILL: the lease is free after its ttl, not before',
    async run(kind) {
      await shutDown(kind, 'idle', 3_000, 'SIGKILL', async (_, gotIn, killedMs) => {
        const waitedMs = (await gotIn) - killedMs
        // Renewed at half of the ttl at the latest, a good while before on a busy machine.
        check(waitedMs >= 500, `another got in ${waitedMs} ms after the kill`)
        check(waitedMs < 3_000 + SOON_MS, `another got in only ${waitedMs} ms after the kill`)
      })
    },
  },
]
