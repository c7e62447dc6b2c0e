// A process that asks for ten keys through several stores, each on a pool of its own, at the same moment as many others, on a server
// without tables. Says what it was granted.
import { createPool } from 'mysql2/promise'
import { mysqlStore } from '../../dist/stores/mysql/index.js'

const [url, count] = process.argv.slice(2)
const pools = Array.from({ length: Number(count) }, () => createPool({ uri: url, connectionLimit: 1 }))
const stores = pools.map((pool) => mysqlStore(pool))

process.on('message', async () => {
  const granted = []
  const errors = []
  await Promise.all(
    stores.flatMap((store, n) =>
      Array.from({ length: 10 }, async (_, i) => {
        const asked = { key: `key ${i}`, claim: `${process.pid} ${n} ${i}`, holder: `${process.pid}`, ttlMs: 600_000 }
        try {
          if ((await store.acquire(asked, { timeoutMs: 240_000 })).is === 'granted') granted.push(asked.key)
        } catch (error) {
          errors.push(String(error))
        }
      }),
    ),
  )
  process.send({ granted, errors })
})
process.send('ready')
