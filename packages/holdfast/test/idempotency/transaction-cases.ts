// Record and effect in one commit, as cases for every database whose driver answers later.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Records, TransactionRecords } from '../../src/idempotency/contract.js'
import {
  fingerprintOf,
  InProgressError,
  KeyReusedError,
  once,
  onceInTransaction,
  UnknownOutcomeError,
} from '../../src/idempotency/index.js'

export interface TransactionTarget<Transaction> {
  readonly records: Records & TransactionRecords<Transaction>
  /** Runs the body in a transaction of the application; rolls back when it throws. */
  transaction<T>(body: (tx: Transaction) => Promise<T>): Promise<T>
  /** Takes 100 from the balance, which is 1000 at first. */
  effect(tx: Transaction): Promise<void>
  balance(): Promise<number>
  /** What is no transaction. */
  readonly outside: unknown
  close(): Promise<void>
}

export function runTransactionCases<Transaction>(
  name: string,
  create: () => Promise<TransactionTarget<Transaction>>,
): void {
  describe(`once in a transaction: ${name}`, () => {
    let target: TransactionTarget<Transaction>
    let before = 1000
    let keys = 0
    beforeAll(async () => {
      target = await create()
    })
    afterAll(() => target?.close())

    const options = (more: object = {}) => ({
      key: `key-${keys}`,
      fingerprint: fingerprintOf({ amount: 100 }),
      ...more,
    })
    const fresh = async () => {
      keys++
      before = await target.balance()
    }
    const spent = async () => before - (await target.balance())
    const pay = (more: object = {}, after?: () => unknown) =>
      target.transaction((tx) =>
        onceInTransaction(tx, target.records, options(more), async () => {
          await target.effect(tx)
          return (after === undefined ? { paid: 100 } : await after()) as object
        }),
      )

    it('commits effect and record together, and a repeat has no effect', async () => {
      await fresh()
      expect(await pay()).toEqual({ paid: 100 })
      expect(await pay()).toEqual({ paid: 100 })
      expect(await spent()).toBe(100)
      expect(await target.records.inspect(options().key)).toMatchObject({ state: 'done', attempt: 1 })
    })

    it('leaves nothing behind when the work throws, and a repeat runs', async () => {
      await fresh()
      await expect(pay({}, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
      expect(await target.records.inspect(options().key)).toBe(null)
      await pay()
      expect(await spent()).toBe(100)
    })

    it('a concurrent repeat waits for the commit, and is told the result (C57)', async () => {
      await fresh()
      const all = await Promise.all(Array.from({ length: 8 }, () => pay().catch((error) => error)))
      // A server may end some of those who wait for one row, as deadlocks: they are the caller's to run again.
      const paid = all.filter((one) => !(one instanceof Error))
      expect(paid.length).toBeGreaterThan(0)
      for (const one of paid) expect(one).toEqual({ paid: 100 })
      expect(await spent()).toBe(100)
      expect(await pay()).toEqual({ paid: 100 })
    })

    it('a concurrent repeat runs itself when the first rolls back', async () => {
      await fresh()
      let failed = 0
      const one = () =>
        pay({}, () => {
          if (failed++ === 0) throw new Error('first')
          return { paid: 100 }
        })
      const ends = await Promise.allSettled([one(), one(), one()])
      expect(ends.filter(({ status }) => status === 'rejected').length).toBeGreaterThanOrEqual(1)
      await pay()
      expect(await spent()).toBe(100)
    })

    it('another payload is refused (C55)', async () => {
      await fresh()
      await pay()
      await expect(pay({ fingerprint: 'h1-other' })).rejects.toBeInstanceOf(KeyReusedError)
      expect(await spent()).toBe(100)
    })

    it('a `once` outside that runs, crashed or is done is told', async () => {
      await fresh()
      const { key, fingerprint } = options()
      const run = { key, fingerprint, claim: 'c', holder: 'web-9', ttlMs: 60_000, retentionMs: 60_000, takeOver: false }
      await target.records.begin(run)
      await expect(pay()).rejects.toBeInstanceOf(InProgressError)
      await target.records.finish(run, { is: 'unknown' }, 60_000)
      await expect(pay()).rejects.toBeInstanceOf(UnknownOutcomeError)
      await target.records.finish(run, { is: 'returned', text: '{"by":"once"}' }, 60_000)
      expect(await pay()).toEqual({ by: 'once' })
      expect(await spent()).toBe(0)
    })

    it('and the other way round', async () => {
      await fresh()
      await pay()
      expect(await once(target.records, options(), () => ({}))).toEqual({ paid: 100 })
    })

    it('a result that cannot be carried rolls back', async () => {
      await fresh()
      await expect(pay({}, () => new Date())).rejects.toThrow(/result must be plain data/)
      expect(await spent()).toBe(0)
    })

    it('outside a transaction nothing is run', async () => {
      await fresh()
      const work = () => Promise.reject(new Error('must not run'))
      await expect(onceInTransaction(target.outside as never, target.records, options(), work)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        option: 'tx',
      })
      await expect(onceInTransaction({} as never, target.records, options(), work)).rejects.toMatchObject({
        option: 'tx',
      })
      expect(await target.records.inspect(options().key)).toBe(null)
    })
  })
}
