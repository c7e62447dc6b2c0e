// A store in another process: every question of the contract goes over a socket, and so do the questions to the registers.
import { connect, type Socket } from 'node:net'
import type { LeaseRecord, LeaseStore, StoreCapabilities } from 'holdfast'
import { asker, type Verbs } from './rpc.js'

/** What a process asks the database of the demo. */
export type Ask = ReturnType<typeof asker>

/** A connection to the database of the demo. */
export function dial(path: string): Promise<{ ask: Ask; socket: Socket }> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve({ ask: asker(socket), socket })
    })
  })
}

/** The store at the other end of a connection. */
export function remoteStore(ask: Ask, socket: Socket, capabilities: StoreCapabilities): LeaseStore {
  return {
    name: 'demo',
    contract: 1,
    capabilities,
    acquire: (request) => ask('acquire', request),
    renew: (leases) => ask('renew', leases),
    release: (grant) => ask('release', grant),
    withdraw: (key, claim) => ask('withdraw', key, claim),
    inspect: (key) => ask('inspect', key),
    async *list(options) {
      yield* await ask<LeaseRecord[]>('list', options ?? {})
    },
    revoke: (key, options) => ask('revoke', key, options ?? {}),
    async close() {
      socket.end()
    },
  }
}

/** The other end: a store as verbs. */
export const storeVerbs = (store: LeaseStore): Verbs => ({
  acquire: (request: Parameters<LeaseStore['acquire']>[0]) => store.acquire(request),
  renew: (leases: Parameters<LeaseStore['renew']>[0]) => store.renew(leases),
  release: (grant: Parameters<LeaseStore['release']>[0]) => store.release(grant),
  withdraw: (key: string, claim: string) => store.withdraw(key, claim),
  inspect: (key: string) => store.inspect(key),
  async list(options: Parameters<LeaseStore['list']>[0]) {
    const records: LeaseRecord[] = []
    for await (const record of store.list(options)) records.push(record)
    return records
  },
  revoke: (key: string, options: Parameters<LeaseStore['revoke']>[1]) => store.revoke(key, options),
})
