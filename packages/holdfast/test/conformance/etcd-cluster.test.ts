// The etcd store under the whole suite on three servers that vote.
import { etcdConformance } from '../etcd/conformance.js'
import { EtcdCluster } from '../etcd/servers.js'

etcdConformance(
  'etcd, three members',
  () => EtcdCluster.start(),
  ({ urls }) => urls,
)
