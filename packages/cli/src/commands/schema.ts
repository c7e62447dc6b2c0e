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
  readonly table?: string
  readonly fence?: boolean
  readonly records?: boolean
}

/** The SQL for each database. `schema` is what Postgres calls so, and a database of MySQL. */
const PRINT: Readonly<Record<string, (given: Given) => Promise<string>>> = {
  async postgres({ fence, records, ...names }) {
    const { postgresFence, postgresRecordsSchema, postgresSchema } = await import('holdfast/postgres')
    if (fence) return `begin;\n${postgresFence(names).schema}\ncommit;\n`
    return records ? postgresRecordsSchema(names) : postgresSchema(names)
  },
  async mysql({ schema, fence, records, ...table }) {
    const { mysqlFence, mysqlRecordsSchema, mysqlSchema } = await import('holdfast/mysql')
    const names = schema === undefined ? table : { database: schema, ...table }
    if (fence) return `${mysqlFence(names).schema};\n`
    return records ? mysqlRecordsSchema(names) : mysqlSchema(names)
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
    .option(
      '--table <name>',
      'what the table is to be called: default holdfast_lease, holdfast_fence or holdfast_record',
    )
    .option('--fence', "the table of the fence, in Postgres also its triggers' function, instead")
    .addOption(new Option('--records', 'the table of the records of once, instead').conflicts('fence'))
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
