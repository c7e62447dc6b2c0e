// An elector on a Lease as people write it: seconds cut off, expiry by its own time of day against renewTime, a renewal each interval
// whatever became of the last, any error kept quiet or taken for a loss. The cases that Holdfast passes must fail on it.
import type { KubernetesLease, KubernetesLeases } from '../../src/stores/kubernetes/index.js'
import { toMicroTime } from '../../src/stores/kubernetes/micro-time.js'

export interface NaiveOptions {
  readonly ttlMs?: number
  /** What an error does: `keep`, it will work next time; `step down`, somebody else must have it. */
  readonly onError?: 'keep' | 'step down'
}

export class NaiveElector {
  /** Whether it believes that it leads. */
  leads = false
  errors = 0
  /** How often it gave up what it had. */
  losses = 0
  readonly #api: KubernetesLeases
  readonly #name: string
  readonly #me: string
  readonly #options: NaiveOptions
  #cached: KubernetesLease | undefined

  constructor(api: KubernetesLeases, name: string, me: string, options: NaiveOptions = {}) {
    this.#api = api
    this.#name = name
    this.#me = me
    this.#options = options
  }

  /** Takes the lease or renews it. Never fails. */
  async turn(): Promise<boolean> {
    try {
      this.leads = await this.#try()
    } catch {
      this.errors++
      this.#cached = undefined
      if (this.#options.onError === 'step down') {
        this.leads = false
        this.losses++
      }
    }
    return this.leads
  }

  async #try(): Promise<boolean> {
    const at = { name: this.#name, namespace: 'default' }
    const now = toMicroTime(Date.now() * 1e3)
    const spec = {
      holderIdentity: this.#me,
      leaseDurationSeconds: Math.floor((this.#options.ttlMs ?? 2_000) / 1_000),
      renewTime: now,
    }
    let lease = this.#cached
    try {
      lease ??= await this.#api.readNamespacedLease(at)
    } catch (error) {
      if ((error as { code?: number }).code !== 404) throw error
      this.#cached = await this.#api.createNamespacedLease({ namespace: 'default', body: { metadata: at, spec } })
      return true
    }
    const { holderIdentity, renewTime, leaseDurationSeconds = 0 } = lease.spec ?? {}
    const isOver = Date.parse(String(renewTime)) + leaseDurationSeconds * 1_000 < Date.now()
    if (holderIdentity !== this.#me && !isOver) return false
    this.#cached = await this.#api.replaceNamespacedLease({ ...at, body: { ...lease, spec } })
    return true
  }
}
