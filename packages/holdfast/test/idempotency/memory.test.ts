// Records in memory under all cases, in virtual time.
import { memoryRecords } from '../../src/stores/memory/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { runRecordCases } from './run-cases.js'

runRecordCases('memory', () => {
  const clock = new VirtualClock()
  const records = memoryRecords({ clock })
  return { records, other: records, unitMs: 80, passMs: (ms) => clock.advance(ms), close: () => records.close() }
})
