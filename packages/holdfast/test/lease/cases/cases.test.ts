// The cases of the field that can be played in one process: the client passes each, the naive one fails each for its fault.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createLeases, type LeaseStore } from '../../../src/index.js'
import { seededRandom } from '../../../src/testing/index.js'
import { createNaive } from '../naive-client.js'
import { makeStage, type Time } from './case.js'
import { countTimersBy, inputCases } from './input.js'
import { renewalCases } from './renewal.js'

const cases = [...inputCases, ...renewalCases]

const time: Time = {
  advance: async (ms) => void (await vi.advanceTimersByTimeAsync(ms)),
  stepWall: (ms) => void vi.setSystemTime(Date.now() + ms),
}

describe('cases', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'] })
    countTimersBy(() => vi.getTimerCount())
  })
  afterEach(() => void vi.useRealTimers())

  let seed = 0
  const client = (store: LeaseStore) => createLeases({ store, closeStore: false, random: seededRandom(++seed) })
  const naive = (store: LeaseStore) => createNaive({ store, onLost: () => {} })

  for (const { id, title, run, naive: why } of cases) {
    it(`${id} ${title}`, () => run(makeStage(client, time)))

    it(`${id} fails with a naive client: ${title}`, async () => {
      await expect(run(makeStage(naive, time))).rejects.toThrow(why)
    })
  }
})
