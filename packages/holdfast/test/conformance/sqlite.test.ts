// The SQLite store under the whole suite: two handles on one file, in virtual time.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, it } from 'vitest'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { type ConformanceTarget, runConformance, VirtualClock } from '../../src/testing/index.js'

const create = (): ConformanceTarget => {
  const clock = new VirtualClock()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-conformance-'))
  const open = () => sqliteStore({ path: join(folder, 'leases.db'), Database, clock })
  const store = open()
  return {
    store,
    open,
    passMs: (ms) => clock.advance(ms),
    prune: () => store.prune({ olderThanMs: 0 }),
    close: () => rmSync(folder, { recursive: true, force: true }),
  }
}

runConformance({ describe, it, name: 'sqlite', create, complete: true })
