// The data that the lease of the demo is about: one report in two registers. The plain one takes whatever comes; the fenced one
// asks a fence first, in the same atomic step.
import type { Grant } from 'holdfast'
import { StaleTokenError } from 'holdfast'
import { sqliteFence } from 'holdfast/sqlite'
import Database from 'libsql'
import type { Register, Written } from './cast.js'

export interface Registers {
  write(register: Register, text: string, grant: Grant): Written
  read(register: Register): string
  close(): void
}

/** In memory: the rule of a fence in its plainest form. It admits a bigger token, and an equal one of the same claim. */
export function memoryRegisters(): Registers {
  const texts = { plain: '', fenced: '' }
  let admitted = { token: 0, claim: '' }
  return {
    write(register, text, { token, claim }) {
      if (register === 'fenced') {
        if (token < admitted.token || (token === admitted.token && claim !== admitted.claim))
          return { is: 'stale', admitted: admitted.token }
        admitted = { token, claim }
      }
      texts[register] = text
      return { is: 'written' }
    },
    read: (register) => texts[register],
    close() {},
  }
}

/** In a SQLite file, as an application would: the fence and the write are one transaction. */
export function sqliteRegisters(path: string): Registers {
  const database = new Database(path)
  database.exec(
    `create table registers (name text primary key, text text not null); insert into registers values ('plain', ''), ('fenced', '')`,
  )
  const fence = sqliteFence()
  const update = database.prepare('update registers set text = ? where name = ?')
  const select = database.prepare('select text from registers where name = ?')
  const fenced = database.transaction((text: string, grant: Grant) => {
    fence.admit(database, grant)
    update.run(text, 'fenced')
  })
  return {
    write(register, text, grant) {
      try {
        if (register === 'fenced') fenced(text, grant)
        else update.run(text, 'plain')
        return { is: 'written' }
      } catch (error) {
        if (error instanceof StaleTokenError) return { is: 'stale', admitted: error.admitted ?? null }
        throw error
      }
    },
    read: (register) => (select.get(register) as { text: string }).text,
    close: () => void database.close(),
  }
}
