// SIGKILL at every statement of every verb, and at any moment between: whatever a process was about, the file is sound
// afterwards, the next process gets its leases, nothing is held longer than its ttl, and tokens rise.
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { folder, launch, type Program, SOAK, start, waitUntil } from './harness.js'

const KEY = 'k'
const TTL_MS = 10_000
const POLL_MS = 1_000
const ROUNDS = SOAK ? 200 : 8
/** A kill before a read leaves the file as one after the statement before it: the short run does without. */
const COUNTED = SOAK ? 'all' : 'writes'

/** As the program names them. */
const VERBS = [
  'open',
  'acquire',
  'acquire with meta',
  'acquire, refused and queued',
  'acquire by the head of the queue',
  'handover',
  'renew',
  'release',
  'release to a queue',
  'withdraw',
  'revoke',
  'revoke with force',
  'acquire after the clock was set back',
  'prune',
] as const

const tokensOf = ({ said }: Program) => said.flatMap(({ token }) => (typeof token === 'number' ? [token] : []))

/** What another process finds: a sound file, and a key that is free after one ttl and two polls, with a bigger token. */
async function expectSound(path: string, dead: Program): Promise<void> {
  const db = new Database(path)
  try {
    expect(db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
  } finally {
    db.close()
  }
  const clock = new VirtualClock({ wallMs: Date.now() })
  const store = sqliteStore({ path, Database, clock })
  try {
    const found = await store.inspect(KEY)
    if (found?.state === 'held') expect(found.remainingMs).toBeLessThanOrEqual(TTL_MS + 10_000) // the dead one's clock may have been ahead
    const tokens = [found?.token ?? 0, ...tokensOf(dead)]
    await clock.advance(TTL_MS + 2 * POLL_MS + 10_000)
    const granted = await store.acquire({ key: KEY, claim: 'next', holder: 'next', ttlMs: TTL_MS })
    expect(granted).toMatchObject({ is: 'granted' })
    expect(granted.token).toBeGreaterThan(Math.max(...tokens))
    expect(await store.release({ key: KEY, claim: 'next', token: granted.token, holder: '' })).toEqual({
      is: 'released',
    })
  } finally {
    await store.close()
  }
}

describe('SIGKILL', () => {
  for (const verb of VERBS) {
    it(`before each statement of "${verb}", and after the last`, async () => {
      // How many statements there are may differ by one or two from run to run: on until it gets through alive.
      let nth = 1
      for (; ; nth++) {
        const path = join(folder(), 'leases.db')
        const dead = launch('killed', [path, verb, String(nth), 'before', COUNTED])
        const { code, signal } = await dead.exited
        await expectSound(path, dead)
        if (signal === 'SIGKILL') continue
        expect({ code, stderr: dead.stderr }).toEqual({ code: 0, stderr: '' })
        break
      }
      expect(nth).toBeGreaterThan(1)
      const path = join(folder(), 'leases.db')
      const dead = launch('killed', [path, verb, String(nth - 1), 'after', COUNTED])
      await dead.exited
      await expectSound(path, dead)
    })
  }

  it(
    `at any moment of a process that never rests, ${ROUNDS} times on one file`,
    async () => {
      const path = join(folder(), 'leases.db')
      let last = 0
      for (let round = 0; round < ROUNDS; round++) {
        const dead = await start('killed', [path, 'hammer', '0', 'before', COUNTED])
        const after = 1 + ((round * 7) % 23)
        await waitUntil(
          'it has been at it for a while',
          () => tokensOf(dead).length >= after || dead.exit !== undefined,
        )
        expect(dead.stderr).toBe('')
        await dead.kill()
        const tokens = tokensOf(dead)
        expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
        expect(tokens[0]).toBeGreaterThan(last)
        last = Math.max(last, ...tokens)
        await expectSound(path, dead)
        const db = new Database(path)
        last = Math.max(
          last,
          Number((db.prepare('SELECT max(token) AS token FROM holdfast_lease').get() as { token: number }).token),
        )
        db.close()
      }
    },
    60_000 + ROUNDS * 2_000,
  )
})
