// What the model of the fair queue found (docs/track-record.md): a contender must tell the store a longer time than it sleeps
// between two questions, or its turn passes while its next question is on its way.
import { expect, it } from 'vitest'
import { setUp } from './world.js'

it('a waiter that loses every hint keeps its turn until its next question arrives, whenever the others ask (G8)', async () => {
  const { clock, memory, net, client } = setUp()
  net.always('acquire', { delayBeforeMs: 20, delayAfterMs: 20 })
  net.dropHints = true
  const options = { ttlMs: 60_000, waitMs: 30_000 }
  await clock.advanceUntil(client().acquire('k', options))
  const order: string[] = []
  const wait = (name: string) =>
    void client()
      .acquire('k', options)
      .then(() => order.push(name))

  wait('first') // its questions arrive at 20, 1,060 and 2,100 ms
  await clock.advance(1_008)
  wait('second') // its questions arrive at 1,028 and 2,068 ms
  await clock.advance(57)
  await memory.revoke('k', { force: true }) // at 1,065 ms it is the turn of the first
  await clock.advanceUntil(() => order.length > 0)
  expect(order).toEqual(['first'])
})
