// Whether this user may do what the store does: tried, on a key of its own.
import type { LeaseStore } from 'holdfast'
import type { Finding } from './finding.js'

export async function rightsFinding(store: Pick<LeaseStore, 'acquire' | 'withdraw'>): Promise<Finding> {
  const [key, claim] = ['holdfast doctor', `doctor ${crypto.randomUUID()}`]
  const base = { what: 'rights of this user', touches: ['G1'] }
  try {
    await store.acquire({ key, claim, holder: 'holdfast doctor', ttlMs: 1_000 })
    await store.withdraw(key, claim)
    return { ...base, read: 'as needed', level: 'ok', advice: '' }
  } catch (error) {
    const advice = error instanceof Error ? error.message : String(error)
    return { ...base, read: 'not enough, or no answer', level: 'problem', advice }
  }
}
