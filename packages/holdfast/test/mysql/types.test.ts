// The pools and connections that people have fit what is asked for, by their own types: no cast, no import of theirs in the library.
import type * as callbacks from 'mysql2'
import type * as mysql from 'mysql2/promise'
import { describe, expectTypeOf, it } from 'vitest'
import type { MysqlFenceConnection, MysqlPool } from '../../src/stores/mysql/index.js'

describe('the types of mysql2', () => {
  it('its promise pool and connections fit', () => {
    expectTypeOf<mysql.Pool>().toExtend<MysqlPool>()
    expectTypeOf<ReturnType<callbacks.Pool['promise']>>().toExtend<MysqlPool>()
    expectTypeOf<mysql.Connection>().toExtend<MysqlFenceConnection>()
    expectTypeOf<mysql.PoolConnection>().toExtend<MysqlFenceConnection>()
  })

  it('and what answers through callbacks, or is one connection, is no pool', () => {
    expectTypeOf<callbacks.Pool>().not.toExtend<MysqlPool>()
    expectTypeOf<mysql.Connection>().not.toExtend<MysqlPool>()
    expectTypeOf<callbacks.Connection>().not.toExtend<MysqlFenceConnection>()
  })
})
