// Four processes on one key of one SQLite file, one of them frozen and thawed again and again. What a lease promises must hold
// (G2, G5), and what it cannot promise shows: a write after the last check. The fence catches that one (G7).
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { believedAtOnce, grantsOf, overwritten, termsOf, tokensThatFell, type Written } from './checkers.js'
import { folder, type Program, SOAK, start, waitUntil } from './harness.js'

const KEY = 'the-one'
const TTL_MS = 500
const FOR_MS = SOAK ? 60_000 : 8_000

function place() {
  const home = folder()
  const files = [join(home, 'leases.db'), join(home, 'app.db')]
  return {
    holder: (name: string, ...options: string[]) => start('holder', [...files, name, ...options]),
    writes(): Written[] {
      const db = new Database(join(home, 'app.db'))
      try {
        return db.prepare('SELECT register, token, holder FROM written ORDER BY seq').all() as Written[]
      } finally {
        db.close()
      }
    },
  }
}

const grants = (programs: readonly Program[]) => grantsOf(programs.flatMap(({ said }) => said))
const terms = (programs: readonly Program[]) => termsOf(programs.flatMap(({ said }) => said))

/** A holder checks its lease and stands still; another takes the key and writes; the first goes on and writes. */
async function frozenBetweenCheckAndWrite(first: Program, second: Program): Promise<void> {
  await first.ask('acquire', { key: KEY, ttlMs: TTL_MS })
  const checked = await first.ask('check', { key: KEY, freeze: true })
  expect(checked.held).toBe(true)
  await first.frozen()
  const taken = await second.ask('acquire', { key: KEY, ttlMs: TTL_MS, waitMs: 20_000 })
  expect(taken.is).toBe('granted')
  expect(await second.ask('write', { key: KEY })).toMatchObject({ fenced: 'admitted' })
  const answer = first.tell('write', { key: KEY })
  first.thaw()
  const wrote = await first.hears('its late write', (line) => line.re === answer)
  expect(wrote.fenced).toBe('stale')
}

describe('a holder that is frozen', () => {
  it('between its check and its write: the plain register is overwritten, the fenced one is not (G7)', async () => {
    const { holder, writes } = place()
    const [first, second] = [await holder('first'), await holder('second')]
    await frozenBetweenCheckAndWrite(first, second)
    expect(await first.ask('check', { key: KEY })).toMatchObject({ held: false, remainingMs: 0 })
    expect(overwritten(writes(), 'fenced')).toEqual([])
    expect(overwritten(writes(), 'plain')).toHaveLength(1)
  })

  it('and does not compare its deadline believes beside the next: the checker sees it (negative control of G5)', async () => {
    const { holder } = place()
    for (const [naive, seen] of [
      ['', 0],
      ['naive', 1],
    ] as const) {
      const [first, second] = [await holder('first', naive), await holder('second')]
      await frozenBetweenCheckAndWrite(first, second)
      await first.ask('check', { key: KEY })
      await second.ask('check', { key: KEY })
      await first.ask('release', { key: KEY })
      await second.ask('release', { key: KEY })
      expect(believedAtOnce(terms([first, second]))).toHaveLength(seen)
      await Promise.all([first.kill(), second.kill()])
    }
  })

  it(
    `again and again, for ${FOR_MS / 1000} s, among four: no two believe, tokens rise, the fence holds`,
    async () => {
      const { holder, writes } = place()
      const programs = await Promise.all(['frozen', 'second', 'third', 'fourth'].map((name) => holder(name)))
      const [victim, ...others] = programs as [Program, ...Program[]]
      for (const program of others) await program.ask('work', { key: KEY, ttlMs: TTL_MS })
      await victim.ask('work', { key: KEY, ttlMs: TTL_MS, freezeEvery: 3 })

      const untilMs = performance.now() + FOR_MS
      let freezes = 0
      while (performance.now() < untilMs) {
        await victim.freeze()
        freezes++
        const [before, sinceMs] = [grants(others).length, performance.now()]
        // Frozen in the middle of a write transaction, it keeps all others out: then only time ends it.
        await waitUntil(
          'the others have gone on',
          () => grants(others).length >= before + 10 || performance.now() - sinceMs > 1_500,
        )
        victim.thaw()
        const own = grants([victim]).length
        await waitUntil('the thawed one has had one to three turns', () => {
          if (grants([victim]).length > own + (freezes % 3)) return true
          victim.thaw()
          return false
        })
      }
      for (const program of programs) program.tell('rest')
      const rested = await Promise.all(
        programs.map(async (program) => {
          program.thaw()
          return waitUntil('all have stopped', () => {
            program.thaw()
            return program.said.find((line) => line.rested === true)
          })
        }),
      )

      const all = grants(programs)
      console.log(
        `${freezes} freezes; grants ${programs.map((program) => grants([program]).length).join(', ')}; ` +
          `plain overwritten ${overwritten(writes(), 'plain').length} times; ` +
          `refused by the fence ${rested.map(({ stale }) => stale).join(', ')}; troubles ${JSON.stringify(rested.map(({ troubles }) => troubles))}`,
      )
      expect(freezes).toBeGreaterThan(0)
      for (const program of programs) expect(grants([program]).length).toBeGreaterThan(0)
      expect(tokensThatFell(all)).toEqual([])
      expect(believedAtOnce(terms(programs))).toEqual([])
      expect(overwritten(writes(), 'fenced')).toEqual([])
      if (SOAK) expect(overwritten(writes(), 'plain')).not.toEqual([])
      for (const program of programs) expect(program.exit).toBe(undefined)
    },
    FOR_MS + 60_000,
  )
})
