// The tables and procedures of the store: made by the store at its first use, or printed for those who make them by hand. Each
// statement may be run again, and by many at once. Nothing that a renewal changes has an index; the one index beside the primary key
// is what the fence's `whileHeld` locks, since a change of hands changes it and a renewal does not.
import { type MysqlNames, type Names, namesOf, VERSION } from './names.js'
import { STEPS } from './steps.js'
import { VERBS } from './verbs.js'

const OPTIONS = 'ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4'

/** M has one row; `name` tells this set of tables from all others, and goes to replicas with them. Names are binary: compared byte by byte, and no space at their end is ever dropped. */
const TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS L (
  lease_key VARBINARY(512) NOT NULL,
  token BIGINT NOT NULL DEFAULT 0,
  claim VARBINARY(255) NOT NULL DEFAULT '',
  holder VARBINARY(1024) NOT NULL DEFAULT '',
  ttl_ms BIGINT NOT NULL DEFAULT 0,
  granted_us BIGINT NOT NULL DEFAULT 0,
  expires_us BIGINT NOT NULL DEFAULT 0,
  changes BIGINT NOT NULL DEFAULT 0,
  revoked TINYINT NOT NULL DEFAULT 0,
  more TINYINT NOT NULL DEFAULT 0,
  reserved_us BIGINT NOT NULL DEFAULT 0,
  last_ended VARBINARY(255) NOT NULL DEFAULT '',
  meta MEDIUMBLOB,
  PRIMARY KEY (lease_key),
  UNIQUE KEY by_token (lease_key, token)
) ${OPTIONS}`,
  `CREATE TABLE IF NOT EXISTS W (
  lease_key VARBINARY(512) NOT NULL,
  place BIGINT NOT NULL,
  claim VARBINARY(255) NOT NULL,
  holder VARBINARY(1024) NOT NULL,
  since_us BIGINT NOT NULL,
  poll_ms BIGINT NOT NULL,
  fresh_us BIGINT NOT NULL,
  PRIMARY KEY (lease_key, place)
) ${OPTIONS}`,
  `CREATE TABLE IF NOT EXISTS E (
  lease_key VARBINARY(512) NOT NULL,
  claim VARBINARY(255) NOT NULL,
  until_us BIGINT NOT NULL,
  revoked TINYINT NOT NULL,
  PRIMARY KEY (lease_key, claim)
) ${OPTIONS}`,
  `CREATE TABLE IF NOT EXISTS M (
  id TINYINT NOT NULL,
  version INT NOT NULL,
  pruned_token BIGINT NOT NULL DEFAULT 0,
  name CHAR(36) CHARACTER SET ascii NOT NULL,
  PRIMARY KEY (id)
) ${OPTIONS}`,
  `INSERT INTO M (id, version, name) VALUES (1, ${VERSION}, UUID()) ON DUPLICATE KEY UPDATE id = 1`,
]

/** What a procedure is run with, for good: it keeps the mode and the character set in which it was made. */
export const SESSION: readonly string[] = [
  'SET NAMES utf8mb4',
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
]

/** The statements, one by one. A procedure that is there already is reported as error 1304, which means that it is there. */
export function statements(names: Names): string[] {
  const database = names.database === undefined ? [] : [`CREATE DATABASE IF NOT EXISTS ${names.database}`]
  return [...database, ...[...TABLES, ...procedures].map((text) => named(text, names))]
}

const procedures = [...STEPS, ...VERBS].map((text) => {
  const body = text.search(/\n(?:step: )?BEGIN/)
  return `CREATE ${text.slice(0, body)}\n  SQL SECURITY INVOKER${text.slice(body)}`
})

/** The text with the names in it. */
const named = (text: string, names: Names): string =>
  text.replaceAll(/\b(?:([LWEM])|P_(\w+))\b/g, (_, table?: string, verb?: string) => {
    if (verb !== undefined) return names.procedure(verb)
    return { L: names.leases, W: names.waiters, E: names.ended, M: names.meta }[table ?? ''] ?? ''
  })

/**
 * The SQL that makes the store's tables and procedures, for those who run it by hand (`migrate: false`), with the `mysql` or
 * `mariadb` command. It may be run again.
 *
 * Throws InvalidArgumentError for names that MySQL would not take as they are.
 *
 * @example
 * ```ts
 * const sql = mysqlSchema({ database: 'leases' })
 * ```
 */
export function mysqlSchema(options: MysqlNames = {}): string {
  const names = namesOf(options)
  const parts = statements(names).map((text) => {
    const [, procedure] = /^CREATE PROCEDURE ((?:`(?:[^`]|``)*`\.?)+)\(/.exec(text) ?? []
    if (procedure === undefined) return `${text};`
    return `DROP PROCEDURE IF EXISTS ${procedure};\nDELIMITER //\n${text}//\nDELIMITER ;`
  })
  return `-- Holdfast: leases, version ${VERSION}\n${[...SESSION.map((text) => `${text};`), ...parts].join('\n\n')}\n`
}
