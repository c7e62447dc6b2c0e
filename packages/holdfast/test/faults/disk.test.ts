// The disk is full: said in so many words, nobody believes for longer than he may, nothing crashes, and the same store works on
// when there is space again. A limit on the size of files stands in for the disk wherever mounting one of our own is not
// allowed; both are real errors of the operating system.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { atEnd, folder, start, waitUntil } from './harness.js'

const TTL_MS = 1_500

interface Disk {
  readonly name: string
  /** What the caller is told. */
  readonly says: RegExp
  /** Makes a place for the file. */
  make(home: string): string
  fill(place: string, pid: number): void
  free(place: string, pid: number): void
}

const limit: Disk = {
  name: 'a limit on the size of files',
  says: /leases\.db failed: check the disk/,
  make: (home) => home,
  fill: (_, pid) => void execFileSync('prlimit', ['--pid', String(pid), '--fsize=1:']),
  free: (_, pid) => void execFileSync('prlimit', ['--pid', String(pid), '--fsize=unlimited:']),
}

const mounted: Disk = {
  name: 'a disk of 512 KiB that is full',
  says: /no space is left for .*leases\.db/,
  make(home) {
    const place = join(home, 'disk')
    mkdirSync(place)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', place])
    atEnd(() => execFileSync('umount', ['-l', place]))
    return place
  },
  fill(place) {
    // In pieces, so that the last free page goes too.
    for (let i = 0; ; i++) {
      try {
        writeFileSync(join(place, `ballast-${i}`), Buffer.alloc(4096))
      } catch {
        return
      }
    }
  },
  free(place) {
    for (let i = 0; i < 200; i++) rmSync(join(place, `ballast-${i}`), { force: true })
  },
}

/** Whether this user may mount. */
function mayMount(): boolean {
  return spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
}

describe('a full disk', () => {
  for (const disk of mayMount() ? [limit, mounted] : [limit]) {
    it(`${disk.name}: StoreError says it, held leases end in time, the same store works afterwards`, async () => {
      const home = folder()
      const place = disk.make(home)
      const holder = await start('holder', [join(place, 'leases.db'), join(home, 'app.db'), 'holder'])
      const kept = await holder.ask('acquire', { key: 'kept', ttlMs: TTL_MS })
      expect(kept.is).toBe('granted')

      disk.fill(place, holder.pid)
      // What is in the write-ahead log already may be written once more: sooner or later there is no room.
      const refused = await waitForRefusal(() => holder.ask('acquire', { key: `k${Math.random()}`, ttlMs: 600_000 }))
      expect(refused).toMatchObject({ is: 'failed', code: 'STORE_ERROR' })
      expect(refused.message).toMatch(disk.says)
      await waitUntil('the lease that cannot be renewed is lost', () =>
        holder.said.some(({ lost, token }) => lost === 'deadline' && token === kept.token),
      )
      expect(await holder.ask('check', { key: 'kept' })).toMatchObject({ held: false })
      expect(holder.exit).toBe(undefined)

      disk.free(place, holder.pid)
      const again = await holder.ask('acquire', { key: 'kept', ttlMs: TTL_MS, waitMs: 20_000 })
      expect(again.is).toBe('granted')
      expect(again.token).toBeGreaterThan(Number(kept.token))
      expect(holder.stderr).toBe('')
      holder.tell('exit')
      expect(await holder.exited).toEqual({ code: 0, signal: null })
      const db = new Database(join(place, 'leases.db'))
      expect(db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
      db.close()
    })
  }
})

async function waitForRefusal<Answer extends { is?: unknown }>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let i = 0; i < 1_000; i++) {
    const answer = await ask()
    if (answer.is === 'failed') return answer
  }
  throw new Error('the disk is not full')
}
