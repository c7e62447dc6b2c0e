// What goes wrong with a server, its sessions, its locks and the network, on real servers: kills, ended sessions, rows that others
// have locked, pools without a connection, lost replies, clocks that step. Cases of the field by number.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { LeaseLostError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { clientKinds, pgPool } from './clients.js'
import { Bench, errorOf, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { pass, waitUntil } from './servers.js'

/** Ends a client that may still hold leases. */
const shut = (client: { close(options: { drainMs: number }): Promise<void> }) =>
  client.close({ drainMs: 1 }).catch(() => {})

/** An address of the server at which every connection ends with its first greeting, as if the server were killed at that instant. */
async function lastWords(port: number) {
  const said = ['SFATAL', 'VFATAL', 'C57P01', 'Mterminating connection due to unexpected postmaster exit', '', '']
  const fields = Buffer.from(said.join('\0'))
  const head = Buffer.from([0x45, 0, 0, 0, 0]) // E, and how long it is
  head.writeInt32BE(fields.length + 4, 1)
  const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]) // Z: ready for a query
  let greeted = 0
  const server = createServer((socket) => {
    const behind = connect(port, '127.0.0.1')
    socket.pipe(behind)
    behind.on('data', (chunk) => {
      const at = chunk.indexOf(ready)
      if (at === -1) return socket.write(chunk)
      greeted++
      socket.end(Buffer.concat([chunk.subarray(0, at + ready.length), head, fields]))
      return behind.destroy()
    })
    for (const each of [socket, behind]) each.on('error', () => {})
    socket.on('close', () => behind.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, greeted: () => greeted, close: () => server.close() }
}

/** An address of the server at which connections are taken and never answered, while it is mute. */
async function mutable(port: number) {
  let mute = false
  let unanswered = 0
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket.on('error', () => {}))
    socket.on('close', () => open.delete(socket))
    if (mute) return unanswered++
    const behind = connect(port, '127.0.0.1').on('error', () => {})
    return socket.pipe(behind).pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of open) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    unanswered: () => unanswered,
    /** Cuts what is open, and answers no more. */
    silence() {
      mute = true
      cut()
    },
    speak() {
      mute = false
    },
    close() {
      server.close()
      cut()
    },
  }
}

describe('a reply that is lost', () => {
  const bench = Bench.here()

  it.concurrent.each(clientKinds)(
    'C08, $name: of acquire, renew and release: the repeat finds its own',
    async (kind) => {
      const proxy = await bench.proxy()
      const connected = kind.open(bench.by(proxy), 1)
      const near = postgresStore(connected.client, { listen: false })
      const far = bench.store()
      const key = fresh()
      /** Each verb once on the connection: postgres.js asks for the types of a new statement first. */
      const warmUp = async () => {
        const warm = fresh()
        await granted(near, warm, 'warm')
        await near.renew([{ key: warm, claim: 'warm', ttlMs: HOUR_MS }])
        await near.release(grantOf(warm, 'warm'))
        return true
      }
      await warmUp()
      const brief = { timeoutMs: 700 }

      proxy.swallowReplies()
      const lost = errorOf(near.acquire(request(key, 'a'), brief))
      const token = await waitUntil('the grant', async () => (await far.inspect(key))?.token)
      expect(await lost).toMatchObject({ outcome: 'unknown' })
      proxy.cut()
      proxy.heal()
      await waitUntil('a connection', () => warmUp().catch(() => false))
      expect(await granted(near, key, 'a')).toBe(token)

      proxy.swallowReplies()
      const renewal = errorOf(near.renew([{ key, claim: 'a', ttlMs: 2 * HOUR_MS }], brief))
      await waitUntil('the renewal', async () => ((await far.inspect(key))?.remainingMs ?? 0) > 1.5 * HOUR_MS)
      expect(await renewal).toMatchObject({ outcome: 'unknown' })
      proxy.cut()
      proxy.heal()
      await waitUntil('a connection', () => warmUp().catch(() => false))
      expect(await near.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])

      proxy.swallowReplies()
      const release = errorOf(near.release(grantOf(key, 'a'), brief))
      await waitUntil('the release', async () => (await far.inspect(key))?.state === 'free')
      expect(await release).toMatchObject({ outcome: 'unknown' })
      proxy.cut()
      proxy.heal()
      await waitUntil('a connection', () => warmUp().catch(() => false))
      expect(await near.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
      await near.close()
      await connected.close()
    },
  )

  it.concurrent('C08, negative control: a client that takes silence for "not acquired" leaves a holder whom nobody knows', async () => {
    const proxy = await bench.proxy()
    const pool = bench.pool({ query_timeout: 300 }, bench.by(proxy))
    const near = bench.store({ listen: false }, pool)
    const key = fresh()
    await granted(near, fresh(), 'warm')
    proxy.swallowReplies()
    const naive = await near.acquire(request(key, 'a'), { timeoutMs: 500 }).catch(() => ({ is: 'held' }))
    expect(naive.is).toBe('held')
    proxy.heal()
    expect(await bench.store().acquire(request(key, 'b'))).toMatchObject({ is: 'held', holder: 'holder of a' })
  })

  it.concurrent('a connection that hangs is given up and replaced: the pool is not poisoned', async () => {
    const proxy = await bench.proxy()
    const pool = bench.pool({ max: 2 }, bench.by(proxy))
    const store = bench.store({ listen: false }, pool)
    await Promise.all([granted(store, fresh(), 'a'), pool.query('select pg_sleep(0.05)')])
    proxy.hang()
    const errors = await Promise.all(
      [1, 2, 3].map(() => errorOf(store.acquire(request(fresh(), 'a'), { timeoutMs: 300 }))),
    )
    for (const error of errors) expect(error).toBeInstanceOf(StoreError)
    proxy.cut()
    proxy.heal()
    await waitUntil('a connection', () => granted(store, fresh(), 'b').catch(() => 0))
    await waitUntil('all given back', () => pool.idleCount === pool.totalCount)
  })

  it.concurrent('a server that hangs in mid-hold: the signal aborts before the term is over (G5)', async () => {
    const proxy = await bench.proxy()
    const client = createLeases({ store: bench.store({}, bench.pool({}, bench.by(proxy))), closeStore: false })
    const lease = await client.acquire(fresh(), { ttlMs: 1_500, marginMs: 300 })
    proxy.hang()
    await waitUntil('the loss', () => lease.signal.aborted, 10_000)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    proxy.heal()
    await shut(client)
  })
})

describe('the disk', () => {
  // The log is written at commits that wait for it, or once in 10 s.
  const bench = Bench.here({ settings: ['fsync = on', 'wal_writer_delay = 10s'] })

  it('is waited for by a grant and a renewal, not by a release; the next grant waits for the release as well', async () => {
    const pool = pgPool(bench.server.url)
    const store = postgresStore(pool, { listen: false })
    const logAt = async (): Promise<string> => (await pool.query('select pg_current_wal_insert_lsn() as at')).rows[0].at
    const isOnDisk = async (at: string): Promise<boolean> =>
      (await pool.query('select pg_current_wal_flush_lsn() >= $1 as yes', [at])).rows[0].yes
    const keys = [fresh(), fresh()]
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    expect(await isOnDisk(await logAt())).toBe(true)
    await store.renew([{ key: keys[0] ?? '', claim: 'a', ttlMs: HOUR_MS }])
    expect(await isOnDisk(await logAt())).toBe(true)
    for (const [some, claim] of [
      [keys, 'a'],
      [keys.slice(0, 1), 'b'],
    ] as const) {
      await Promise.all(some.map((key) => store.release(grantOf(key, claim))))
      const released = await logAt()
      expect(await isOnDisk(released)).toBe(false)
      await Promise.all(some.map((key) => granted(store, key, claim === 'a' ? 'b' : 'c')))
      expect(await isOnDisk(released)).toBe(true)
    }
    await pool.end()
  })
})

describe('a server that is killed', () => {
  const bench = Bench.here({ settings: ['fsync = on'] })

  it('with -9, in every phase: each call is answered, what was answered is there afterwards, tokens rise', async () => {
    const pool = pgPool(bench.server.url, { max: 4 })
    const store = postgresStore(pool, { listen: false })
    const keys = Array.from({ length: 40 }, () => fresh())
    await Promise.all(keys.map((key) => granted(store, key, 'old')))
    const tokens = new Map<string, number>()
    for (const phase of ['acquire', 'renew', 'release', 'withdraw'] as const) {
      const answered = new Map<string, unknown>()
      let killing = false
      const work = keys.map(async (key, i) => {
        for (let n = 0; !killing || n === 0; n++) {
          const claim = `${phase} ${i} ${n}`
          const send = {
            acquire: () => store.acquire(request(key, claim, { replaces: `${phase} ${i} ${n - 1}` })),
            renew: () => store.renew([{ key, claim: 'old', ttlMs: HOUR_MS }]),
            release: () => store.release(grantOf(key, claim)),
            withdraw: () => store.withdraw(key, claim),
          }[phase]
          try {
            answered.set(key, await send())
          } catch (error) {
            expect(error).toBeInstanceOf(StoreError)
            return
          }
        }
      })
      await waitUntil('work', () => answered.size > 20)
      await bench.server.kill()
      killing = true
      await Promise.all(work)
      expect(await errorOf(store.acquire(request(fresh(), 'x'), { timeoutMs: 500 }))).toMatchObject({ outcome: 'none' })
      await bench.server.start()
      await waitUntil('a connection', async () =>
        store.inspect('none').then(
          () => true,
          () => false,
        ),
      )
      for (const key of keys) {
        const record = await store.inspect(key)
        expect(record?.state).toBe('held') // everything committed is there: nobody has released it
        expect(record?.token).toBeGreaterThanOrEqual(tokens.get(key) ?? 1)
        tokens.set(key, record?.token ?? 0)
      }
    }
    await store.close()
    await pool.end()
  })

  it('a held lease outlives it: the holder goes on renewing, and nobody else gets in', async () => {
    const pool = pgPool(bench.server.url)
    const client = createLeases({ store: postgresStore(pool) })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 20_000, renewEveryMs: 300, callTimeoutMs: 2_000 })
    await bench.server.kill()
    await bench.server.start()
    await waitUntil('a renewal', () =>
      lease.renew().then(
        () => true,
        () => false,
      ),
    )
    expect(lease.held).toBe(true)
    const other = bench.store()
    expect(await other.acquire(request(key, 'b'))).toMatchObject({ is: 'held', token: lease.token })
    await lease.release()
    await shut(client)
    await pool.end()
  })
})

describe('sessions that are ended', () => {
  const bench = Bench.here()
  const endAll = (where = 'true') =>
    bench.server.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' and ${where}`,
    )

  it('C39: the lease is a row: every session may end, and the holder still holds it', async () => {
    const client = createLeases({ store: bench.store(), closeStore: false })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 30_000 })
    for (let i = 0; i < 3; i++) {
      await endAll()
      await waitUntil('a renewal', () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      )
      expect(await bench.store().acquire(request(key, `other ${i}`))).toMatchObject({ is: 'held' })
    }
    expect(lease.held).toBe(true)
    await shut(client)
  })

  it('C39, negative control: a session lock is gone with its session, and its holder does not know', async () => {
    const [naive, other] = [bench.pool({ max: 1, application_name: 'naive' }), bench.pool({ max: 1 })]
    const session = await naive.connect()
    session.on('error', () => {})
    await session.query('select pg_advisory_lock(42)')
    await endAll("application_name = 'naive'")
    const { rows } = await waitUntil('the lock', async () => {
      const answer = await other.query('select pg_try_advisory_lock(42) as got')
      return answer.rows[0].got ? answer : undefined
    })
    expect(rows).toEqual([{ got: true }]) // and no call of the first one has failed yet
    session.release(true)
  })

  it('in the middle of a statement: the outcome is unknown, and nothing crashes', async () => {
    const store = bench.store({}, bench.pool({ application_name: 'ended' }))
    const key = fresh()
    await granted(store, key, 'a', { ttlMs: 1 })
    const blocker = bench.pool({ max: 1 })
    await blocker.query('begin')
    await blocker.query('select from holdfast_lease where key = $1 for update', [key])
    const asked = errorOf(store.acquire(request(key, 'b'), { timeoutMs: 5_000 }))
    await waitUntil(
      'the wait',
      async () => (await endAll("application_name = 'ended' and state = 'active'")).length > 0,
    )
    expect(await asked).toMatchObject({ outcome: 'unknown' })
    await blocker.query('rollback')
    await granted(store, key, 'b')
  })

  it('C12, C33: the connection that listens is ended while somebody waits: the release is heard all the same', async () => {
    const [near, far] = [bench.store({}, bench.pool({ application_name: 'near' })), bench.store()]
    const [a, b] = [far, near].map((store) => createLeases({ store, closeStore: false }))
    const key = fresh()
    const first = await a?.acquire(key, { ttlMs: 60_000 })
    const second = b?.acquire(key, { ttlMs: 60_000, waitMs: 30_000 })
    const listening = "application_name = 'near' and query ilike 'listen%'"
    await waitUntil('the listening', async () => (await endAll(listening)).length > 0)
    await waitUntil('the listening again', async () => {
      const rows = await bench.server.sql(`select pid from pg_stat_activity where ${listening}`)
      return rows.length > 0
    })
    const releasedMs = performance.now()
    await first?.release()
    const lease = await second
    expect(performance.now() - releasedMs).toBeLessThan(5_000)
    await lease?.release()
    await Promise.all([a?.close(), b?.close()])
  })

  it('C12: a connection that is to listen, and is never answered, is given up, and the next one hears', async () => {
    const address = bench.closing(await mutable(bench.server.port))
    const store = bench.store({ listen: bench.pool({}, bench.by(address)) })
    const left = new AbortController()
    const watch = store.watch?.(fresh(), { claim: 'a', signal: left.signal })[Symbol.asyncIterator]()
    await watch?.next() // it listens
    const again = watch?.next()
    address.silence()
    await waitUntil('a connection that is not answered', () => address.unanswered() > 0)
    address.speak()
    expect(await again).toMatchObject({ done: false })
    left.abort()
  })

  it('C39: idle_session_timeout ends what is idle; leases and waiting go on', async () => {
    const pool = bench.pool({ options: '-c idle_session_timeout=300', idleTimeoutMillis: 0 })
    const client = createLeases({ store: bench.store({}, pool), closeStore: false })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 4_000, renewEveryMs: 1_000 })
    await pass(3_000)
    expect(lease.held).toBe(true)
    expect((await bench.store().inspect(key))?.state).toBe('held')
    await shut(client)
  })
})

describe('rows that somebody else has locked', () => {
  const bench = Bench.here()

  /** A transaction of somebody who sits on the row of a key. */
  async function sitsOn(key: string, text = 'select from holdfast_lease where key = $1 for update') {
    const pool = bench.pool({ max: 1 })
    await pool.query('begin')
    await pool.query(text, [key])
    return { leave: () => pool.query('rollback') }
  }

  it.concurrent('a long transaction on one row costs a process none of its other leases', async () => {
    const client = createLeases({ store: bench.store(), closeStore: false })
    const keys = Array.from({ length: 50 }, () => fresh())
    const leases = await Promise.all(keys.map((key) => client.acquire(key, { ttlMs: 2_000, renewEveryMs: 500 })))
    const sitting = await sitsOn(keys[7] ?? '')
    await waitUntil('its loss', () => leases[7]?.signal.aborted, 10_000)
    await pass(1_500)
    expect(leases.map(({ held }) => held)).toEqual(leases.map((_, i) => i !== 7))
    expect(leases[7]?.signal.reason).toBeInstanceOf(LeaseLostError)
    await sitting.leave()
    await shut(client)
  })

  it.concurrent.each([
    ['changes', 'update holdfast_lease set holder = holder where key = $1'],
    ['deletes', 'delete from holdfast_lease where key = $1'],
    ['makes', 'insert into holdfast_lease (key, token) values ($1, 0)'],
  ])(
    'a transaction that %s a row: its acquire ends with outcome none, and those asked for together with it are granted',
    async (what, text) => {
      const store = bench.store()
      const [key, ...others] = Array.from({ length: 8 }, () => fresh()) as [string, ...string[]]
      if (what !== 'makes') await granted(store, key, 'a', { ttlMs: 1 })
      await Promise.all(others.slice(0, 3).map((other) => granted(store, other, 'a', { ttlMs: 1 })))
      await pass(5)
      const sitting = await sitsOn(key, text)
      const call = { timeoutMs: 3_000 }
      const alone = store.acquire(request(key, 'b'), call)
      expect(await errorOf(alone)).toMatchObject({ outcome: 'none', message: expect.stringMatching(/pg_locks/) })
      const [refused, ...answers] = await Promise.allSettled(
        [key, ...others].map((one) => store.acquire(request(one, 'c'), call)),
      )
      expect(refused).toMatchObject({ status: 'rejected', reason: { outcome: 'none' } })
      for (const answer of answers) expect(answer).toMatchObject({ status: 'fulfilled', value: { is: 'granted' } })
      // A row that is there is skipped: nobody waits for the 50 ms after which a lock is given up.
      const atOnce = async () => {
        const askedMs = performance.now()
        const [locked, other] = [key, fresh()].map((one) => store.acquire(request(one, 'd'), { timeoutMs: 300 }))
        const refusal = errorOf(locked as Promise<unknown>)
        await other
        const tookMs = performance.now() - askedMs
        return (await refusal) !== undefined && tookMs < 50
      }
      if (what !== 'makes') await waitUntil('a grant at once', atOnce)
      await sitting.leave()
      await granted(store, key, 'e')
    },
  )

  it.concurrent('negative control: one statement that waits for all rows renews none of them', async () => {
    const store = bench.store()
    const keys = Array.from({ length: 5 }, () => fresh())
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    const sitting = await sitsOn(keys[2] ?? '')
    const naive = bench.pool({ options: '-c lock_timeout=300' })
    const error = await errorOf(
      naive.query('update holdfast_lease set expires_us = expires_us + 1 where key = any($1)', [keys]),
    )
    expect(error).toMatchObject({ code: '55P03' })
    await sitting.leave()
  })

  it.concurrent('a pool of one: while a row is locked, its other keys are acquired, renewed and released', async () => {
    const store = bench.store({}, bench.pool({ max: 1 }))
    const [locked, ...others] = Array.from({ length: 6 }, () => fresh()) as [string, ...string[]]
    await granted(store, locked, 'a', { ttlMs: 1 })
    const sitting = await sitsOn(locked)
    const waiting = store.acquire(request(locked, 'b'), { timeoutMs: 20_000 })
    for (let i = 0; i < 3; i++) {
      await Promise.all(others.map((key) => granted(store, key, `claim ${i}`)))
      await store.renew(others.map((key) => ({ key, claim: `claim ${i}`, ttlMs: HOUR_MS })))
      await Promise.all(others.map((key) => store.release(grantOf(key, `claim ${i}`))))
    }
    await sitting.leave()
    expect(await waiting).toMatchObject({ is: 'granted' })
  })

  it.concurrent('a lease granted after a wait has its whole ttl; one that expired during the wait is not renewed', async () => {
    const store = bench.store()
    const [key, dying] = [fresh(), fresh()]
    await granted(store, key, 'a', { ttlMs: 1 })
    await granted(store, dying, 'a', { ttlMs: 1_000 })
    const sitting = [await sitsOn(key), await sitsOn(dying)]
    const acquired = store.acquire(request(key, 'b', { ttlMs: 3_000 }), { timeoutMs: 20_000 })
    const renewed = store.renew([{ key: dying, claim: 'a', ttlMs: HOUR_MS }], { timeoutMs: 20_000 })
    await pass(2_000)
    for (const one of sitting) await one.leave()
    expect(await acquired).toMatchObject({ is: 'granted' })
    expect((await store.inspect(key))?.remainingMs).toBeGreaterThan(1_500)
    expect(await renewed).toEqual([{ is: 'lost', reason: 'expired' }])
  })

  it.concurrent('negative control: now() is the time before the wait, so a naive row is born old', async () => {
    const pool = bench.pool({ max: 2 })
    await pool.query('create table naive_wait (key text primary key, expires timestamptz)')
    await pool.query("insert into naive_wait values ('k', now())")
    const sitting = bench.pool({ max: 1 })
    await sitting.query('begin')
    await sitting.query('select from naive_wait for update')
    const naive = pool.query("update naive_wait set expires = now() + interval '1 s' returning expires")
    await pass(1_500)
    await sitting.query('rollback')
    await naive
    expect((await pool.query('select expires > clock_timestamp() as live from naive_wait')).rows).toEqual([
      { live: false },
    ])
  })

  it.concurrent('the time of a call counts from when it was asked, not from when the row was found locked', async () => {
    const pool = bench.pool({ max: 1 })
    const store = bench.store({ listen: false }, pool)
    const key = fresh()
    await granted(store, key, 'a')
    const sitting = await sitsOn(key)
    const busy = await pool.connect()
    const askedMs = performance.now()
    const refused = errorOf(store.release(grantOf(key, 'a'), { timeoutMs: 1_500 }))
    await pass(1_000)
    busy.release()
    expect(await refused).toMatchObject({ outcome: 'none', message: expect.stringMatching(/pg_locks/) })
    expect(performance.now() - askedMs).toBeLessThan(2_000)
    await sitting.leave()
  })

  it.concurrent('waited for in vain, the call ends with outcome none, and names the reason', async () => {
    const store = bench.store()
    const key = fresh()
    await granted(store, key, 'a')
    const sitting = await sitsOn(key)
    const call = { timeoutMs: 3_000 }
    const errors = await Promise.all(
      [
        store.acquire(request(key, 'b'), call),
        store.release(grantOf(key, 'a'), call),
        store.withdraw(key, 'b', call),
        store.renew([{ key, claim: 'a', ttlMs: 1 }], call),
        store.revoke(key, {}, call),
      ].map(errorOf),
    )
    for (const error of errors)
      expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/pg_locks/) })
    await sitting.leave()
    expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
  })
})

describe('pools', () => {
  const bench = Bench.here()

  it.concurrent('exhausted: a call ends in time with outcome none, and says so; later ones work', async () => {
    const pool = bench.pool({ max: 2 })
    const store = bench.store({}, pool)
    await granted(store, fresh(), 'a')
    const taken = await Promise.all([pool.connect(), pool.connect()])
    expect(await errorOf(store.acquire(request(fresh(), 'a'), { timeoutMs: 200 }))).toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/pool/),
    })
    for (const connection of taken) connection.release()
    await granted(store, fresh(), 'a')
    expect(pool.waitingCount).toBe(0)
  })

  it.concurrent('of one: waiting for a wake-up does not take its connection', async () => {
    const [near, far] = [bench.store({}, bench.pool({ max: 1 })), bench.store()]
    const client = createLeases({ store: near, closeStore: false })
    const key = fresh()
    await granted(far, key, 'a')
    const second = client.acquire(key, { waitMs: 30_000 })
    await waitUntil('the queue', async () => (await far.inspect(key))?.waiters.length === 1)
    await granted(near, fresh(), 'b')
    await far.release(grantOf(key, 'a'))
    await (await second).release()
    await shut(client)
  })

  it.concurrent('of one, held by a long transaction of the caller: a renewal fails, the lease outlives it', async () => {
    const pool = bench.pool({ max: 1 })
    const client = createLeases({ store: bench.store({}, pool), closeStore: false })
    const lease = await client.acquire(fresh(), { ttlMs: 10_000, callTimeoutMs: 300 })
    const tx = await pool.connect()
    await tx.query('begin')
    expect(await errorOf(lease.renew())).toBeDefined()
    expect(lease.held).toBe(true)
    await tx.query('rollback')
    tx.release()
    await lease.renew()
    await shut(client)
  })

  it.concurrent('an error of an idle connection does not end the process, though nobody listens for it', async () => {
    const { default: pg } = await import('pg')
    const pool = new pg.Pool({ connectionString: bench.server.url, application_name: 'idle' })
    const store = postgresStore(pool)
    await granted(store, fresh(), 'a')
    await bench.server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'idle'")
    await waitUntil('its end', () => pool.totalCount === 0)
    await granted(store, fresh(), 'b')
    await store.close()
    await pool.end()
  })

  it.concurrent('what a server says as it dies, right behind its greeting, does not end the process', async () => {
    const dying = bench.closing(await lastWords(bench.server.port))
    const store = bench.store({ migrate: false }, bench.pool({}, bench.by(dying)))
    for (let i = 0; i < 3; i++)
      expect(await errorOf(store.acquire(request(fresh(), 'a')))).toMatchObject({ code: 'STORE_ERROR' })
    expect(dying.greeted()).toBeGreaterThan(2)
  })
})
