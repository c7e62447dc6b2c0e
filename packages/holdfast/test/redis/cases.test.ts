// The cases of the field on real servers: Holdfast passes each, with each driver; what people write themselves fails each for
// its fault.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { acquireCases } from './acquire-cases.js'
import { holdfast, type Maker, Stage } from './case.js'
import { clientKind } from './clients.js'
import { holdCases } from './hold-cases.js'
import { naive } from './naive.js'
import { clusterCases, serverCases } from './server-cases.js'
import { RedisCluster } from './servers.js'

vi.setConfig({ maxConcurrency: 8 })

const makers = ['ioredis 6', 'node-redis 6'].map((name) => holdfast(clientKind(name)))

describe('on one server', () => {
  for (const one of [...acquireCases, ...holdCases, ...serverCases]) {
    it.concurrent.each(makers)(`${one.id} ${one.title}: $name`, (maker) => Stage.play(one, maker))

    it.concurrent(`${one.id} fails with a naive client: ${one.title}`, async ({ expect }) => {
      await expect(Stage.play(one, naive)).rejects.toThrow(one.naive)
    })
  }
})

describe('in a Cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  })
  afterAll(() => cluster?.stop())

  const play = async (one: (typeof clusterCases)[number], maker: Maker) => {
    const client = await maker.clusterClient(cluster)
    try {
      await one.run(client)
    } finally {
      await client.close()
    }
  }

  for (const one of clusterCases) {
    it.each(makers)(`${one.id} ${one.title}: $name`, (maker) => play(one, maker))

    it(`${one.id} fails with a naive client: ${one.title}`, async () => {
      await expect(play(one, naive)).rejects.toThrow(one.naive)
    })
  }
})
