// The procedures against the protocol.
import { describe, it } from 'vitest'
import { sameAsProtocol } from '../store/histories.js'
import { Bench } from './harness.js'

describe('the procedures do as the protocol says', () => {
  const bench = Bench.here({ args: ['--innodb-flush-log-at-trx-commit=0'] })

  it('random histories have the same answers and records', async () => {
    const store = bench.store()
    await store.install()
    const age = [
      'UPDATE holdfast_lease SET granted_us = granted_us - ?, expires_us = expires_us - ?, reserved_us = IF(reserved_us = 0, 0, reserved_us - ?)',
      'UPDATE holdfast_lease_waiter SET since_us = since_us - ?, fresh_us = fresh_us - ?',
      'UPDATE holdfast_lease_ended SET until_us = until_us - ?',
    ]
    const passes = async (keys: readonly string[], ms: number) => {
      for (const sql of age) {
        const us = Array.from({ length: sql.split('?').length - 1 }, () => ms * 1_000)
        await bench.shared.query(`${sql} WHERE lease_key IN (?)`, [...us, keys.map((key) => Buffer.from(key))])
      }
    }
    await sameAsProtocol(store, passes, 60)
  })
})
