// Records in an SQLite file under all cases: two handles on one file, in virtual time.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { it } from 'vitest'
import { sqliteRecords } from '../../src/stores/sqlite/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { sameAsProtocol } from './histories.js'
import { runRecordCases } from './run-cases.js'

runRecordCases('sqlite', () => {
  const clock = new VirtualClock()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-records-'))
  const open = () => sqliteRecords({ path: join(folder, 'records.db'), Database, clock })
  const [records, other] = [open(), open()]
  return {
    records,
    other,
    unitMs: 80,
    passMs: (ms) => clock.advance(ms),
    async close() {
      await Promise.all([records.close(), other.close()])
      rmSync(folder, { recursive: true, force: true })
    },
  }
})

it('sqlite records do as the protocol says: random histories have the same answers and records', async () => {
  const clock = new VirtualClock()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-records-'))
  const records = sqliteRecords({ path: join(folder, 'records.db'), Database, clock, synchronous: 'normal' })
  await sameAsProtocol(records, async (_, ms) => clock.advance(ms), 100)
  await records.close()
  rmSync(folder, { recursive: true, force: true })
})
