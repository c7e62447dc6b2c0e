// The Leases of the stand-in, with versions and a history of changes: what etcd is to an API server.
import { randomUUID } from 'node:crypto'
import { conflict, invalid, type Lease, notFound, Refusal, validate } from './kubernetes-lease.js'

export interface Change {
  readonly version: number
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly lease: Lease
}

/** What etcd takes in one request. */
const REQUEST_BYTES_MAX = 1.5 * 1024 ** 2

export class Objects {
  readonly namespaces = new Map<string, { terminating: boolean; leases: Map<string, Lease> }>()
  readonly changes: Change[] = []
  readonly listeners = new Set<(change: Change) => void>()
  #cached: Map<string, Lease> | undefined
  version = 100
  /** Versions before this one are forgotten. */
  compacted = 0

  addNamespace(name: string): void {
    this.namespaces.set(name, { terminating: false, leases: new Map() })
  }

  /** What stands there; from the cache, which may be old, only when that will do. */
  get(namespace: string, name: string, fromCache = false): Lease | undefined {
    const old = fromCache ? this.#cached?.get(`${namespace}/${name}`) : undefined
    return old ?? this.namespaces.get(namespace)?.leases.get(name)
  }

  /** The cache falls behind: what it has now is what it goes on answering. */
  letCacheLag(): void {
    this.#cached = new Map()
    for (const [namespace, { leases }] of this.namespaces)
      for (const [name, lease] of leases) this.#cached.set(`${namespace}/${name}`, lease)
  }

  list(namespace: string): Lease[] {
    const leases = [...(this.namespaces.get(namespace)?.leases.values() ?? [])]
    return leases.sort((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1))
  }

  create(namespace: string, lease: Lease): Lease {
    const { name = '', resourceVersion } = lease.metadata
    if (resourceVersion !== undefined && resourceVersion !== '')
      throw new Refusal(500, '', 'resourceVersion should not be set on objects to be created')
    const space = this.namespaces.get(namespace)
    if (space === undefined)
      throw new Refusal(404, 'NotFound', `namespaces "${namespace}" not found`, { name: namespace, kind: 'namespaces' })
    if (space.terminating)
      throw new Refusal(
        403,
        'Forbidden',
        `leases.coordination.k8s.io "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
        { name, kind: 'leases', causes: [{ reason: 'NamespaceTerminating', field: 'metadata.namespace' }] },
      )
    validate(lease)
    if (space.leases.has(name))
      throw new Refusal(409, 'AlreadyExists', `leases.coordination.k8s.io "${name}" already exists`, {
        name,
        group: 'coordination.k8s.io',
        kind: 'leases',
      })
    const creationTimestamp = `${new Date().toISOString().slice(0, 19)}Z`
    return this.#store('ADDED', namespace, {
      ...lease,
      metadata: { ...lease.metadata, namespace, uid: randomUUID(), creationTimestamp },
    })
  }

  /** Whether it was created, and what stands there now. */
  replace(namespace: string, name: string, lease: Lease, mayCreate: () => void): { created: boolean; lease: Lease } {
    const { metadata } = lease
    if ((metadata.name ?? name) !== name || (metadata.namespace ?? namespace) !== namespace)
      throw new Refusal(400, 'BadRequest', 'the name of the object does not match the name on the URL')
    const before = this.get(namespace, name)
    const { uid, resourceVersion = '' } = metadata
    if (before === undefined) {
      if (uid !== undefined && uid !== '')
        throw conflict(name, `StorageError: invalid object, Code: 4, Precondition failed: UID in precondition: ${uid}`)
      mayCreate()
      const { resourceVersion: _, ...rest } = metadata
      return { created: true, lease: this.create(namespace, { ...lease, metadata: { ...rest, name } }) }
    }
    if (uid !== undefined && uid !== '' && uid !== before.metadata.uid)
      throw conflict(
        name,
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${before.metadata.uid}`,
      )
    if (resourceVersion === '' || resourceVersion === '0')
      throw invalid(name, 'metadata.resourceVersion: Invalid value: 0x0: must be specified for an update')
    if (!/^\d+$/.test(resourceVersion)) throw new Refusal(500, '', `invalid resource version "${resourceVersion}"`)
    if (resourceVersion !== before.metadata.resourceVersion)
      throw conflict(
        name,
        'the object has been modified; please apply your changes to the latest version and try again',
      )
    const next: Lease = {
      ...lease,
      metadata: {
        ...metadata,
        name,
        namespace,
        uid: before.metadata.uid ?? '',
        creationTimestamp: before.metadata.creationTimestamp ?? '',
      },
    }
    validate(next)
    if (JSON.stringify(sorted(next)) === JSON.stringify(sorted(before))) return { created: false, lease: before }
    return { created: false, lease: this.#store('MODIFIED', namespace, next) }
  }

  delete(namespace: string, name: string, preconditions: { uid?: string; resourceVersion?: string } = {}): void {
    const before = this.get(namespace, name)
    if (before === undefined) throw notFound(name)
    for (const [field, value] of Object.entries(preconditions))
      if (value !== before.metadata[field]) throw conflict(name, `Precondition failed: ${field}`)
    this.namespaces.get(namespace)?.leases.delete(name)
    this.#tell('DELETED', before)
  }

  #store(type: Change['type'], namespace: string, lease: Lease): Lease {
    if (JSON.stringify(lease).length > REQUEST_BYTES_MAX) throw new Refusal(500, '', 'etcdserver: request is too large')
    const stored = this.#tell(type, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...lease })
    this.namespaces.get(namespace)?.leases.set(stored.metadata.name ?? '', stored)
    return stored
  }

  #tell(type: Change['type'], lease: Lease): Lease {
    const version = ++this.version
    const versioned = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(version) } }
    const change = { version, type, lease: versioned }
    this.changes.push(change)
    for (const listener of this.listeners) listener(change)
    return versioned
  }
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, inner]) => [name, sorted(inner)])
}
