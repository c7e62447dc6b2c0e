// Lease objects in memory, as an API server keeps them, for the simulation: each write only over the uid and the version that were
// read; creations are dated to the second.
import type { KubernetesLease } from '../stores/kubernetes/client.js'
import { toMicroTime } from '../stores/kubernetes/micro-time.js'

/** An answer that is an error, in the form in which clients of Kubernetes tell it. */
class Refused extends Error {
  readonly code: number
  readonly body: string

  constructor(code: number, reason: string) {
    super(reason)
    this.code = code
    this.body = JSON.stringify({ reason })
  }
}

export class LeaseObjects {
  readonly #nowMs: () => number
  readonly #leases = new Map<string, KubernetesLease>()
  #version = 0

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  read(name: string): KubernetesLease {
    const lease = this.#leases.get(name)
    if (lease === undefined) throw new Refused(404, 'NotFound')
    return structuredClone(lease)
  }

  create(body: KubernetesLease): KubernetesLease {
    const name = body.metadata?.name ?? ''
    if (this.#leases.has(name)) throw new Refused(409, 'AlreadyExists')
    const second = Math.floor(this.#nowMs() / 1e3)
    const creationTimestamp = toMicroTime(second * 1e6).replace('.000000', '')
    return this.#store(name, body, { uid: `uid ${this.#version}`, creationTimestamp })
  }

  replace(name: string, body: KubernetesLease): KubernetesLease {
    const before = this.#leases.get(name)?.metadata
    const { uid, resourceVersion } = body.metadata ?? {}
    if (before?.uid !== uid) throw new Refused(409, 'Conflict')
    if (before?.resourceVersion !== resourceVersion) throw new Refused(409, 'Conflict')
    return this.#store(name, body, { uid: uid ?? '', creationTimestamp: before?.creationTimestamp })
  }

  #store(name: string, body: KubernetesLease, fixed: { uid: string; creationTimestamp: unknown }): KubernetesLease {
    const metadata = { ...body.metadata, ...fixed, resourceVersion: String(++this.#version) }
    const lease = structuredClone({ ...body, metadata })
    this.#leases.set(name, lease)
    return structuredClone(lease)
  }
}
