// The registers of the demo in Postgres: two rows, and a fence that is asked in the transaction of the write. All of it is in a schema
// of its own, named after this run, and removed at its end.
import { postgresFence } from 'holdfast/postgres'
import type pg from 'pg'
import { type Registers, written } from '../demo/registers.js'

export async function postgresRegisters(pool: pg.Pool, name: string): Promise<Registers> {
  const fence = postgresFence({ schema: name })
  await fence.install(pool)
  const table = `"${name.replaceAll('"', '""')}".registers`
  await pool.query(`create table if not exists ${table} (name text primary key, text text not null)`)
  await pool.query(`insert into ${table} values ('plain', ''), ('fenced', '') on conflict do nothing`)
  const update = `update ${table} set text = $1 where name = $2`
  return {
    write: (register, text, grant) =>
      written(async () => {
        const tx = await pool.connect()
        try {
          await tx.query('begin')
          if (register === 'fenced') await fence.admit(tx, grant)
          await tx.query(update, [text, register])
          await tx.query('commit')
        } catch (error) {
          await tx.query('rollback')
          throw error
        } finally {
          tx.release()
        }
      }),
    async read(register) {
      const { rows } = await pool.query(`select text from ${table} where name = $1`, [register])
      return rows[0]?.text ?? ''
    },
    async close() {
      await pool.query(`drop schema if exists "${name.replaceAll('"', '""')}" cascade`)
    },
  }
}
