// Runs the cases of records on one store, each with a target of its own.
import { describe, it } from 'vitest'
import { type RecordsTarget, recordCases } from './record-cases.js'

export function runRecordCases(
  name: string,
  create: () => Promise<RecordsTarget> | RecordsTarget,
  /** On a real clock cases wait side by side; their keys are the same, so each needs data of its own. */
  { concurrent = false } = {},
): void {
  describe(`records: ${name}`, () => {
    for (const { id, about, run } of recordCases) {
      ;(concurrent ? it.concurrent : it)(`${id}: ${about}`, async () => {
        const target = await create()
        try {
          await run(target)
        } finally {
          await target.close()
        }
      })
    }
  })
}
