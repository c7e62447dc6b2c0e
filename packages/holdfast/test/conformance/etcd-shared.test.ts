// The etcd store under the whole suite with claims that share their etcd leases, as those of a client do.
import { type EtcdStore, etcdStore } from '../../src/stores/etcd/index.js'
import { etcdConformance } from '../etcd/conformance.js'
import { EtcdServer } from '../etcd/servers.js'

function sharing(store: EtcdStore): EtcdStore {
  return {
    ...store,
    acquire: (request, call) => store.acquire({ ...request, shares: true }, call),
    renew: (leases, call) =>
      store.renew(
        leases.map((lease) => ({ ...lease, shares: true })),
        call,
      ),
  }
}

etcdConformance(
  'etcd, shared leases',
  () => EtcdServer.start(),
  ({ url }) => [url],
  (options) => sharing(etcdStore(options)),
)
