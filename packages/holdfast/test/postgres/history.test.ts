// The functions against the protocol.
import { describe, it } from 'vitest'
import { sameAsProtocol } from '../store/histories.js'
import { Bench } from './harness.js'

describe('the functions do as the protocol says', () => {
  const bench = Bench.here()

  it('random histories have the same answers and records', async () => {
    const store = bench.store()
    await store.install()
    const pool = bench.pool({ max: 1 })
    const age = [
      'update holdfast_lease set granted_us = granted_us - $2, expires_us = expires_us - $2, reserved_us = case reserved_us when 0 then 0 else reserved_us - $2 end',
      'update holdfast_lease_waiter set since_us = since_us - $2, fresh_us = fresh_us - $2',
      'update holdfast_lease_ended set until_us = until_us - $2',
    ]
    const passes = async (keys: readonly string[], ms: number) => {
      for (const sql of age) await pool.query(`${sql} where key = any($1)`, [keys, ms * 1_000])
    }
    await sameAsProtocol(store, passes, 100)
  })
})
