// The clients that people have fit what store and fence ask for, by their own types: no cast, no import of theirs in the library.
import type pg from 'pg'
import type postgres from 'postgres'
import { describe, expectTypeOf, it } from 'vitest'
import type { PostgresClient, PostgresTransaction } from '../../src/stores/postgres/index.js'

describe('the types of the real clients are assignable', () => {
  it('a Pool of pg, and the sql of postgres.js', () => {
    expectTypeOf<pg.Pool>().toExtend<PostgresClient>()
    expectTypeOf<postgres.Sql>().toExtend<PostgresClient>()
    expectTypeOf<postgres.Sql<{ bigint: bigint }>>().toExtend<PostgresClient>()
  })

  it('their transactions', () => {
    expectTypeOf<pg.PoolClient>().toExtend<PostgresTransaction>()
    expectTypeOf<pg.Client>().toExtend<PostgresTransaction>()
    expectTypeOf<postgres.TransactionSql>().toExtend<PostgresTransaction>()
  })

  it('and what is none does not fit', () => {
    expectTypeOf<pg.Client>().not.toExtend<PostgresClient>()
    expectTypeOf<postgres.TransactionSql>().not.toExtend<PostgresClient>()
    expectTypeOf<Map<string, string>>().not.toExtend<PostgresClient>()
    expectTypeOf<string>().not.toExtend<PostgresTransaction>()
  })
})
