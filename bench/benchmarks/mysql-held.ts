// What holding costs: many leases of one process in MariaDB, renewed by the library, nothing else going on.
import { setTimeout } from 'node:timers/promises'
import { createLeases, type Lease, type Leases } from 'holdfast'
import { mysqlStore } from 'holdfast/mysql'
import type { Pool, RowDataPacket } from 'mysql2/promise'
import type { Benchmark, Metrics } from '../harness/benchmark.js'
import { collectGarbage } from '../harness/heap.js'
import { counted } from '../measure/counted-store.js'
import { cpuShareDuring } from '../measure/cpu.js'
import { emptyMysql, mysqlCpu } from '../measure/mysql.js'

const LEASES = 20_000
const TTL_MS = 30_000
const TAKEN_TOGETHER = 1_000
const NAME = `library, ${LEASES.toLocaleString('en-US')} leases`

let pool: Pool | undefined
let leases: Leases | undefined
let held: Lease[] = []
let renewals = 0

/** The statements executed, and the bytes of the redo log, since the server started. */
async function counters(): Promise<{ calls: number; logged: number }> {
  const [rows] = (await pool?.query<RowDataPacket[]>(
    "SHOW GLOBAL STATUS WHERE variable_name IN ('Com_stmt_execute', 'Innodb_os_log_written')",
  )) ?? [[]]
  const of = (name: string) => Number(rows.find((row) => row.Variable_name === name)?.Value)
  return { calls: of('Com_stmt_execute'), logged: of('Innodb_os_log_written') }
}

async function measure(seconds: number): Promise<Metrics> {
  collectGarbage()
  const before = await counters()
  const renewalsBefore = renewals
  const serverMs = await mysqlCpu()
  const share = await cpuShareDuring(() => setTimeout(1000 * seconds))
  const cpuMs = serverMs()
  const after = await counters()
  const renewed = renewals - renewalsBefore
  return {
    renewals: { value: renewed / seconds, unit: '/s' },
    'renewals for one call': { value: renewed / Math.max(1, after.calls - before.calls), unit: '' },
    'redo log': { value: (after.logged - before.logged) / Math.max(1, renewed), unit: 'bytes/renewal' },
    CPU: { value: share, unit: '% of a core' },
    'CPU of the server': { value: cpuMs / (10 * seconds), unit: '% of a core' },
    lost: { value: held.filter((lease) => !lease.held).length, unit: 'leases' },
  }
}

export default {
  name: 'mysql-held',
  title: 'Leases held by one process in MariaDB (ttl 30 s): calls, redo log and CPU of their renewal',
  floor: NAME,
  seconds: 15,
  subjects: [
    {
      name: NAME,
      async setup() {
        pool = await emptyMysql(10)
        const store = counted(mysqlStore(pool), {
          onRenew: (due) => {
            renewals += due.length
          },
        })
        leases = createLeases({ store, ttlMs: TTL_MS })
        held = []
        for (let first = 0; first < LEASES; first += TAKEN_TOGETHER) {
          const names = Array.from({ length: TAKEN_TOGETHER }, (_, i) => `shard:${first + i}`)
          held.push(...(await Promise.all(names.map((name) => (leases as Leases).acquire(name)))))
        }
      },
      run: measure,
      async teardown() {
        await Promise.all(held.map((lease) => lease.release()))
        await leases?.close()
        await pool?.end()
      },
    },
  ],
  targets: [
    { subject: NAME, metric: 'renewals for one call', of: 'median', atLeast: 400 },
    { subject: NAME, metric: 'lost', of: 'median', atMost: 0 },
  ],
} satisfies Benchmark
