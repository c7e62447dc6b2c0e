// `sqlite:PATH`: a SQLite file on this machine.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { sqliteStore } from 'holdfast/sqlite'
import Database from 'libsql'
import { doctorOfSqlite } from '../doctor/sqlite.js'
import { CliError, EXIT, messageOf } from '../exit.js'
import { printable } from '../text.js'
import type { Open } from './scheme.js'
import { sqliteRegisters } from './sqlite-registers.js'
import { sqlitePath } from './sqlite-url.js'

export const open: Open = (url) => {
  const path = sqlitePath(url)
  try {
    if (!existsSync(dirname(path))) throw new Error('its folder does not exist; make it first')
    return {
      store: sqliteStore({ path, Database }),
      shown: `sqlite:${printable(path)}`,
      doctor: async () => doctorOfSqlite(path),
      registers: async ({ folder }) => sqliteRegisters(join(folder, 'application.db')),
    }
  } catch (cause) {
    throw new CliError(EXIT.unavailable, `cannot open the store sqlite:${path}: ${messageOf(cause)}`, { cause })
  }
}
