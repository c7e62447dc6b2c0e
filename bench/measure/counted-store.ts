// A store that counts what is asked of it.
import type { AcquireRequest, LeaseStore, RenewRequest } from 'holdfast'

export interface Watchers {
  onAcquire?(request: AcquireRequest): void
  onRenew?(requests: readonly RenewRequest[]): void
}

/** The same store; each acquire and renewal is told first. */
export function counted(store: LeaseStore, { onAcquire, onRenew }: Watchers): LeaseStore {
  return {
    ...store,
    acquire(request, call) {
      onAcquire?.(request)
      return store.acquire(request, call)
    },
    renew(requests, call) {
      onRenew?.(requests)
      return store.renew(requests, call)
    },
  }
}
