// Records in Redis under all cases, on a real server's clock, with each kind of client; and what only Redis can do to them.
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { redisRecords } from '../../src/stores/redis/index.js'
import { type Connected, clientKind } from '../redis/clients.js'
import { cli, pass, RedisCluster, RedisServer } from '../redis/servers.js'
import { goldenRecords, readsGolden } from './golden.js'
import { sameAsProtocol } from './histories.js'
import { asks, ran } from './record-cases.js'
import { runRecordCases } from './run-cases.js'

vi.setConfig({ maxConcurrency: 40 })

function withCases(
  name: string,
  start: () => Promise<{ stop(): Promise<void> }>,
  connect: (servers: never) => Promise<Connected>,
) {
  describe(name, () => {
    let servers: { stop(): Promise<void> }
    let connected: Connected
    let cases = 0
    beforeAll(async () => {
      servers = await start()
      connected = await connect(servers as never)
    })
    afterAll(async () => {
      await connected?.close()
      await servers?.stop()
    })
    runRecordCases(
      name,
      () => {
        const prefix = `case ${cases++}:`
        const open = () => redisRecords(connected.client, { prefix })
        return {
          records: open(),
          other: open(),
          unitMs: 1_500,
          prunesItself: true,
          passMs: pass,
          close: async () => {},
        }
      },
      { concurrent: true },
    )
  })
}

for (const kind of ['ioredis 6', 'node-redis 6']) {
  withCases(
    `redis, ${kind}`,
    () => RedisServer.start(),
    ({ port }: RedisServer) => clientKind(kind).standalone(port),
  )
}
withCases(
  'redis cluster, ioredis 6',
  () => RedisCluster.start(),
  (cluster: RedisCluster) => clientKind('ioredis 6').cluster(cluster),
)

describe('redis records', () => {
  let server: RedisServer
  let connected: Connected
  beforeAll(async () => {
    server = await RedisServer.start()
    connected = await clientKind('ioredis 6').standalone(server.port)
  })
  afterAll(async () => {
    await connected.close()
    await server.stop()
  })

  it('do as the protocol says: random histories have the same answers and records', async () => {
    const client = new Redis(server.port)
    /** A record begins with a mark and its state, then the ends of its term and of its keeping, in µs. */
    const age = `for _, key in ipairs(KEYS) do
      local v = redis.call('GET', key)
      if v then
        local mark, state, term, keep = struct.unpack('>BBdd', v)
        local left = redis.call('PTTL', key) - ARGV[1]
        if left <= 0 then redis.call('DEL', key)
        else redis.call('SET', key, struct.pack('>BBdd', mark, state, term - ARGV[1] * 1000, keep - ARGV[1] * 1000) .. v:sub(19), 'PX', left)
        end
      end
    end`
    const passes = async (keys: readonly string[], ms: number) => {
      await client.eval(age, keys.length, ...keys.map((key) => `holdfast-record:${key}`), ms)
    }
    await sameAsProtocol(redisRecords(connected.client), passes, 150)
    client.disconnect()
  })

  it('read what version 1 wrote (golden)', async () => {
    const client = new Redis(server.port)
    /** Big-endian: a mark, state, term, keep, token, attempt, whether after unknown; three texts behind their lengths; the result. */
    for (const { key, state, fingerprint, claim, holder, token, attempt, afterUnknown, ...rest } of goldenRecords) {
      const head = Buffer.alloc(31)
      head.writeUInt8(0xf2, 0)
      head.writeUInt8(state, 1)
      for (const [i, number] of [rest.termUs, rest.keepUs, token].entries()) head.writeDoubleBE(number, 2 + 8 * i)
      head.writeUInt32BE(attempt, 26)
      head.writeUInt8(afterUnknown ? 1 : 0, 30)
      const texts = [claim, fingerprint, holder].flatMap((one) => {
        const length = Buffer.alloc(2)
        length.writeUInt16BE(Buffer.byteLength(one))
        return [length, Buffer.from(one)]
      })
      await client.set(`golden:${key}`, Buffer.concat([head, ...texts, Buffer.from(rest.text ?? '')]))
    }
    await readsGolden(redisRecords(connected.client, { prefix: 'golden:' }))
    client.disconnect()
  })

  it('go on when the server has lost its scripts (C32)', async () => {
    const records = redisRecords(connected.client)
    const request = asks({ key: 'flushed' })
    await ran(records, request)
    await cli(server.port, 'script', 'flush')
    expect(await records.extend(request, 60_000, 60_000)).toBe('extended')
    await cli(server.port, 'script', 'flush')
    expect(await records.finish(request, { is: 'returned', text: '1' }, 60_000)).toBe('recorded')
  })

  it('leave a value alone that somebody else wrote', async () => {
    await cli(server.port, 'set', 'holdfast-record:foreign', 'mine')
    await cli(server.port, 'lpush', 'holdfast-record:list', 'mine')
    const records = redisRecords(connected.client)
    for (const key of ['foreign', 'list']) {
      await expect(records.begin(asks({ key }))).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
      await expect(records.inspect(key)).rejects.toMatchObject({ code: 'STORE_ERROR' })
    }
    expect(await cli(server.port, 'get', 'holdfast-record:foreign')).toBe('mine')
  })

  it('go by themselves when their retention is over, and not before', async () => {
    const records = redisRecords(connected.client)
    const request = asks({ key: 'kept', ttlMs: 1_000, retentionMs: 50_000 })
    await ran(records, request)
    const running = Number(await cli(server.port, 'pttl', 'holdfast-record:kept'))
    expect(running).toBeGreaterThan(40_000)
    expect(running).toBeLessThanOrEqual(51_000)
    await records.finish(request, { is: 'returned', text: '1' }, 90_000)
    expect(Number(await cli(server.port, 'pttl', 'holdfast-record:kept'))).toBeGreaterThan(80_000)
  })

  it('say when too few replicas have confirmed', async () => {
    const records = redisRecords(connected.client, { replicas: 1, replicasTimeoutMs: 50 })
    await expect(records.begin(asks({ key: 'unconfirmed' }))).rejects.toMatchObject({ outcome: 'unknown' })
  })

  it('refuse options that cannot be right', () => {
    for (const options of [{ prefix: '' }, { replicas: -1 }, { replicasTimeoutMs: Number.NaN }]) {
      expect(() => redisRecords(connected.client, options)).toThrow(/must/)
    }
    expect(() => redisRecords({} as never)).toThrow(/must be a client/)
  })
})
