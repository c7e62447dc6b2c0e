// The etcd store under the whole suite on one server.
import { etcdConformance } from '../etcd/conformance.js'
import { EtcdServer } from '../etcd/servers.js'

etcdConformance(
  'etcd',
  () => EtcdServer.start(),
  ({ url }) => [url],
)
