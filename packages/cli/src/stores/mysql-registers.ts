// The registers of the demo in MySQL: two rows, and a fence that is asked in the transaction of the write. Its two tables are named
// after this run, and removed at its end.
import { mysqlFence } from 'holdfast/mysql'
import type { Pool, RowDataPacket } from 'mysql2/promise'
import { type Registers, written } from '../demo/registers.js'

/** MySQL takes names of 64 characters. */
const NAME_LENGTH_MAX = 50

export async function mysqlRegisters(pool: Pool, name: string): Promise<Registers> {
  const begin = name.slice(-NAME_LENGTH_MAX)
  const fenceTable = `${begin} fence`
  const fence = mysqlFence({ table: fenceTable })
  await fence.install(pool)
  const quoted = (text: string) => `\`${text.replaceAll('`', '``')}\``
  const table = quoted(`${begin} registers`)
  await pool.query(
    `CREATE TABLE IF NOT EXISTS ${table} (name VARCHAR(20) PRIMARY KEY, text MEDIUMTEXT NOT NULL) DEFAULT CHARACTER SET utf8mb4`,
  )
  await pool.query(`INSERT IGNORE INTO ${table} VALUES ('plain', ''), ('fenced', '')`)
  return {
    write: (register, text, grant) =>
      written(async () => {
        const tx = await pool.getConnection()
        try {
          await tx.beginTransaction()
          if (register === 'fenced') await fence.admit(tx, grant)
          await tx.query(`UPDATE ${table} SET text = ? WHERE name = ?`, [text, register])
          await tx.commit()
        } catch (error) {
          await tx.rollback()
          throw error
        } finally {
          tx.release()
        }
      }),
    async read(register) {
      const [[row]] = await pool.query<RowDataPacket[]>(`SELECT text FROM ${table} WHERE name = ?`, [register])
      return row?.text ?? ''
    },
    async close() {
      await pool.query(`DROP TABLE IF EXISTS ${table}, ${quoted(fenceTable)}`)
    },
  }
}
