// `holdfast schema`: the SQL of a store's tables, for those who run it by hand.
import { type Command, Option } from 'commander'
import { InvalidArgumentError } from 'holdfast'
import { usageError } from '../exit.js'

const HELP = `
For roles that may not make tables: run the SQL once with a role that may, and set migrate: false. It may be run again.
  holdfast schema postgres | psql "$DATABASE_URL"
  holdfast schema mysql | mariadb DATABASE`

interface Given {
  readonly schema?: string
  readonly table: string
  readonly fence?: boolean
}

/** The SQL for each database. `schema` is what Postgres calls so, and a database of MySQL. */
const PRINT: Readonly<Record<string, (given: Given) => Promise<string>>> = {
  async postgres({ schema = 'public', table, fence }) {
    const { postgresFence, postgresSchema } = await import('holdfast/postgres')
    return fence ? `begin;\n${postgresFence({ schema }).schema}\ncommit;\n` : postgresSchema({ schema, table })
  },
  async mysql({ schema, table, fence }) {
    const { mysqlFence, mysqlSchema } = await import('holdfast/mysql')
    const inDatabase = schema === undefined ? {} : { database: schema }
    return fence ? `${mysqlFence(inDatabase).schema};\n` : mysqlSchema({ ...inDatabase, table })
  },
}

export function addSchema(program: Command): void {
  program
    .command('schema')
    .description("print the SQL that makes a store's tables and functions")
    .argument('<database>', Object.keys(PRINT).join(' or '))
    .addOption(
      new Option('--schema <name>', 'where the tables are to be: default public, in MySQL the database in use'),
    )
    .addOption(new Option('--table <name>', 'what the table of leases is to be called').default('holdfast_lease'))
    .option('--fence', "the tables of the fence, in Postgres also its triggers' function, instead")
    .addHelpText('after', HELP)
    .action(async (database: string, given: Given) => {
      const print = Object.hasOwn(PRINT, database) ? PRINT[database] : undefined
      if (print === undefined) {
        throw usageError(`schema knows ${Object.keys(PRINT).join(' and ')}; got ${JSON.stringify(database)}`)
      }
      try {
        process.stdout.write(await print(given))
      } catch (error) {
        if (error instanceof InvalidArgumentError) throw usageError(error.message)
        throw error
      }
    })
}
