// A process that asks for ten keys at the same moment as many others, on a server without tables. Says what it was granted.
import pg from 'pg'
import { postgresStore } from '../../dist/stores/postgres/index.js'

const [url] = process.argv.slice(2)
const pool = new pg.Pool({ connectionString: url, max: 2 })
const store = postgresStore(pool, { listen: false })

process.on('message', async () => {
  try {
    const granted = []
    await Promise.all(
      Array.from({ length: 10 }, async (_, i) => {
        const key = `key ${i}`
        const { is } = await store.acquire({
          key,
          claim: `${process.pid} ${i}`,
          holder: `${process.pid}`,
          ttlMs: 600_000,
        })
        if (is === 'granted') granted.push(key)
      }),
    )
    process.send({ granted })
  } catch (error) {
    process.send({ granted: [], error: String(error) })
  }
})
process.send('ready')
