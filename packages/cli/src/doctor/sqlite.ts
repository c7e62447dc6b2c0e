// `doctor` on a SQLite file: its journal, and what it lies on.
import { readFileSync, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'libsql'
import type { Finding } from './finding.js'

export function doctorOfSqlite(path: string): Finding[] {
  const database = new Database(path, { readonly: true })
  try {
    const read = (sql: string) => Object.values((database.prepare(sql).get() ?? {}) as object)[0] as unknown
    const journal = String(read('pragma journal_mode'))
    const version = String(read('select sqlite_version()'))
    return [
      { what: 'version', read: `SQLite ${version}`, level: 'ok', touches: [], advice: '' },
      journalFinding(journal),
      {
        what: 'synchronous',
        read: 'normal',
        level: 'note',
        touches: ['A3', 'holdSurvives'],
        advice:
          'every process may be killed at any time; a power failure may forget the last grants, as it ends their holders on this machine',
      },
      fileSystemFinding(path),
    ]
  } finally {
    database.close()
  }
}

function journalFinding(journal: string): Finding {
  const base = { what: 'journal mode', read: journal, touches: ['G1'] }
  if (journal === 'wal') return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'warning',
    advice:
      'Holdfast makes it wal when it opens the file: somebody changed it since; close what uses the file, and open it again',
  }
}

/** File systems on which locks cannot be relied on, or that other machines write to as well. */
const REMOTE =
  /^(nfs|cifs|smb|9p|ceph|glusterfs|fuse\.(sshfs|glusterfs|s3fs|rclone|ceph)|afs|lustre|ocfs2|gfs2|vboxsf|virtiofs|prl_fs)/

function fileSystemFinding(path: string): Finding {
  const type = fileSystemOf(dirname(path))
  const base = { what: 'file system', touches: ['G1', 'A3'] }
  if (type === undefined)
    return {
      ...base,
      read: 'unknown on this platform',
      level: 'note',
      advice: 'it must be a disk of this machine, no network mount',
    }
  if (REMOTE.test(type))
    return {
      ...base,
      read: type,
      level: 'problem',
      advice:
        'locks of a network file system are not to be relied on, and the journal needs memory that processes share: two may hold; move the file to a disk of this machine',
    }
  if (type === 'tmpfs' || type === 'ramfs')
    return {
      ...base,
      read: type,
      level: 'note',
      advice:
        'the file is gone after a restart of the machine, as are the processes that held; tokens go on rising by the clock',
    }
  return { ...base, read: type, level: 'ok', advice: '' }
}

/** The type of the file system under a folder, where the kernel tells: that of the mount with the longest path. */
export function fileSystemOf(folder: string, mounts = mountInfo()): string | undefined {
  if (mounts === undefined) return undefined
  const real = realpathSync(folder)
  let found: { point: string; type: string } | undefined
  for (const line of mounts.split('\n')) {
    const [before = '', after = ''] = line.split(' - ')
    const point = before
      .split(' ')[4]
      ?.replaceAll(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)))
    if (point === undefined) continue
    const holds = real === point || real.startsWith(point.endsWith('/') ? point : `${point}/`)
    // Of two mounts on one point the later one is seen.
    if (holds && point.length >= (found?.point.length ?? 0)) found = { point, type: after.split(' ')[0] ?? '' }
  }
  return found?.type
}

function mountInfo(): string | undefined {
  try {
    return readFileSync('/proc/self/mountinfo', 'utf8')
  } catch {
    return undefined
  }
}
