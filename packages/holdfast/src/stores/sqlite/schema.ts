// The file's format, version 1: one row for each key, and one row about the file. Golden files in test/sqlite/golden keep it.
import { InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { prepareReader, rollbackQuietly, type SqliteDatabase } from './client.js'

/** Marks the file as ours: "Hldf" in ASCII. */
export const APPLICATION_ID = 0x486c6466

/** The format that this code reads and writes, kept as `PRAGMA user_version`. */
export const FORMAT_VERSION = 1

/**
 * Pages of 1 KiB: each transaction writes one page or two, and with pages of 4 KiB a third of its time goes into copying
 * and summing bytes that did not change. The log is checkpointed after as many bytes as by default.
 */
const PAGE_BYTES = 1024
const CHECKPOINT_PAGES = 4000

/**
 * `holdfast_lease` holds the states of `store/protocol.ts`, one row for each key. Times are ms of the store's clock.
 * `meta`, `ended` and `queue` are JSON, NULL when there is nothing. `at_ms` is when the row was last written.
 *
 * `holdfast_file` has one row. `offset_ms` is added to the machine's clock: it grows when the clock stepped back.
 * `pruned_token` is the biggest token of a row that was forgotten: a key without a row starts above it.
 */
export const SCHEMA = `\
CREATE TABLE holdfast_lease (
  key TEXT NOT NULL COLLATE BINARY PRIMARY KEY,
  token INTEGER NOT NULL,
  claim TEXT NOT NULL,
  holder TEXT NOT NULL,
  ttl_ms INTEGER NOT NULL,
  granted_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  changes INTEGER NOT NULL,
  meta TEXT,
  last_ended TEXT NOT NULL,
  ended TEXT,
  queue TEXT,
  reserved_until_ms INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE holdfast_file (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  offset_ms INTEGER NOT NULL,
  pruned_token INTEGER NOT NULL
) STRICT;
INSERT INTO holdfast_file (id, offset_ms, pruned_token) VALUES (1, 0, 0);
PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${FORMAT_VERSION};
`

/**
 * Brings a fresh connection and its file into shape. Safe when several processes start at once: whoever gets the write lock
 * first creates, the others find it done. Throws the driver's BUSY when another is at it; then the connection must be given
 * up and the whole tried again.
 */
export function prepareFile(db: SqliteDatabase, path: string, synchronous: 'normal' | 'full'): void {
  const found = identify(db)
  checkIdentity(found, path)
  if (found.tables === 0) db.exec(`PRAGMA page_size = ${PAGE_BYTES}`)
  db.exec('PRAGMA journal_mode = WAL')
  if (pragma(db, 'journal_mode') !== 'wal') {
    throw new StoreError(
      `${path} cannot have a write-ahead log: put it on a local file system that supports shared memory`,
      {
        outcome: 'none',
      },
    )
  }
  db.exec(`PRAGMA synchronous = ${synchronous}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  if (found.tables === 0) create(db, path)
}

interface Identity {
  readonly applicationId: unknown
  readonly version: unknown
  readonly tables: unknown
}

const identify = (db: SqliteDatabase): Identity => ({
  applicationId: pragma(db, 'application_id'),
  version: pragma(db, 'user_version'),
  tables: prepareReader(db, 'SELECT count(*) FROM sqlite_schema').first()?.[0],
})

const pragma = (db: SqliteDatabase, name: string) => prepareReader(db, `PRAGMA ${name}`).first()?.[0]

function checkIdentity({ applicationId, version, tables }: Identity, path: string): void {
  if (tables === 0) return
  if (applicationId !== APPLICATION_ID) {
    throw new InvalidArgumentError(
      'path',
      path,
      'must be a file of its own: this one is the database of another application, whose transactions would block the leases',
    )
  }
  if (typeof version === 'number' && version <= FORMAT_VERSION) return
  throw new StoreError(
    `${path} has format ${version}, newer than the ${FORMAT_VERSION} of this Holdfast: update Holdfast here, or use another file`,
    { outcome: 'none' },
  )
}

function create(db: SqliteDatabase, path: string): void {
  db.exec('BEGIN IMMEDIATE')
  try {
    const found = identify(db) // another may have been first
    checkIdentity(found, path)
    if (found.tables === 0) db.exec(SCHEMA)
    db.exec('COMMIT')
  } catch (error) {
    rollbackQuietly(db)
    throw error
  }
}
