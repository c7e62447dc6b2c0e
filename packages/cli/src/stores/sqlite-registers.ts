// The registers of the demo in a SQLite file of their own, as an application has one: the fence and the write are one
// transaction.
import type { Grant } from 'holdfast'
import { sqliteFence } from 'holdfast/sqlite'
import Database from 'libsql'
import { type Registers, written } from '../demo/registers.js'

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
    write: (register, text, grant) =>
      written(() => (register === 'fenced' ? fenced(text, grant) : update.run(text, 'plain'))),
    read: async (register) => (select.get(register) as { text: string }).text,
    close: async () => void database.close(),
  }
}
