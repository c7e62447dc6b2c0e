// An elector by the rules of client-go's leaderelection package, driven by hand: what shares a Lease with Holdfast in clusters.
import type { KubernetesLease, KubernetesLeaseSpec, KubernetesLeases } from '../../src/stores/kubernetes/index.js'
import { toMicroTime } from '../../src/stores/kubernetes/micro-time.js'

export class Elector {
  readonly #api: KubernetesLeases
  readonly #at: { name: string; namespace: string }
  readonly #identity: string
  readonly #seconds: number
  #seen: string | undefined
  #seenMs = 0

  constructor(api: KubernetesLeases, name: string, identity: string, seconds: number) {
    this.#api = api
    this.#at = { name, namespace: 'default' }
    this.#identity = identity
    this.#seconds = seconds
  }

  /** One turn of tryAcquireOrRenew: whether it leads. */
  async turn(): Promise<boolean> {
    const now = toMicroTime(Math.floor(Date.now() * 1e3))
    const mine = {
      holderIdentity: this.#identity,
      leaseDurationSeconds: this.#seconds,
      renewTime: now,
      acquireTime: now,
      leaseTransitions: 0,
    }
    let lease: KubernetesLease
    try {
      lease = await this.#api.readNamespacedLease(this.#at)
    } catch (error) {
      if ((error as { code?: unknown }).code !== 404) return false
      const body = { metadata: { ...this.#at }, spec: mine }
      return this.#try(() => this.#api.createNamespacedLease({ namespace: this.#at.namespace, body }))
    }
    const old: KubernetesLeaseSpec = lease.spec ?? {}
    const raw = JSON.stringify(old)
    if (raw !== this.#seen) {
      this.#seen = raw
      this.#seenMs = performance.now()
    }
    const isLeader = old.holderIdentity === this.#identity
    const isValid = this.#seenMs + (old.leaseDurationSeconds ?? 0) * 1_000 > performance.now()
    if ((old.holderIdentity ?? '') !== '' && isValid && !isLeader) return false
    const spec = isLeader
      ? { ...mine, acquireTime: old.acquireTime, leaseTransitions: old.leaseTransitions ?? 0 }
      : { ...mine, leaseTransitions: (old.leaseTransitions ?? 0) + 1 }
    return this.#try(() => this.#api.replaceNamespacedLease({ ...this.#at, body: { ...lease, spec } }))
  }

  /** Gives it back, as client-go does with ReleaseOnCancel. */
  async release(): Promise<void> {
    const lease = await this.#api.readNamespacedLease(this.#at)
    const now = toMicroTime(Math.floor(Date.now() * 1e3))
    const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: now, acquireTime: now }
    await this.#api.replaceNamespacedLease({ ...this.#at, body: { ...lease, spec } })
  }

  async #try(write: () => Promise<unknown>): Promise<boolean> {
    try {
      await write()
      return true
    } catch {
      return false
    }
  }
}
