// G13: "held" is an answer, "could not" is an error, and the error tells whether anything was done.
import { StoreError } from '../../lease/errors.js'
import type { ConformanceCase } from './case.js'
import { check, equal, rejects } from './check.js'

export const failures: readonly ConformanceCase[] = [
  {
    id: 'G13-closed-store-says-so',
    guarantee: 'G13',
    title: 'every verb of a closed store rejects with a StoreError, outcome none',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.store.close()
      await rejects(w.acquire(b), 'none', 'acquire')
      await rejects(w.renew(a), 'none', 'renew')
      await rejects(w.release(a), 'none', 'release')
      await rejects(w.withdraw(a), 'none', 'withdraw')
      await rejects(w.inspect(), 'none', 'inspect')
      await rejects(w.listed(), 'none', 'list')
      await rejects(w.store.revoke(w.key), 'none', 'revoke')
    },
  },
  {
    id: 'G13-closed-twice',
    guarantee: 'G13',
    title: 'closing twice is harmless',
    aboutFault: true,
    async run(w) {
      await w.granted(w.claims()[0])
      await w.store.close()
      await w.store.close()
    },
  },
  {
    id: 'G13-closing-ends-watches',
    guarantee: 'G13',
    title: 'closing a store ends its watches, and lets none begin (C30)',
    aboutFault: true,
    needs: ['watch'],
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      const watching = w.watch(b)
      await w.passMs(w.ttlMs / 2)
      await w.store.close()
      await w.until(() => watching.ended, 'the end of the watch')
      const late = w.watch(b)
      await w.until(() => late.ended, 'the end of a watch that begins after that')
    },
  },
  {
    id: 'G13-aborted-call-says-what-it-knows',
    guarantee: 'G13',
    title:
      'a call whose signal is aborted already either works, or rejects with a StoreError that tells the truth (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const request = { key: w.key, claim: a, holder: w.holder(a), ttlMs: w.longMs }
      try {
        await w.store.acquire(request, { signal: AbortSignal.abort(new Error('given up')) })
        return
      } catch (error) {
        check(error instanceof StoreError, 'an aborted acquire should reject with a StoreError')
        if (error.outcome === 'unknown') return
      }
      equal((await w.inspect())?.state ?? 'free', 'free', 'the state of the key after an acquire that was not applied')
      await w.granted(b)
    },
  },
  {
    id: 'G13-calls-are-independent',
    guarantee: 'G13',
    title: 'a call that was given up leaves the store usable (C18)',
    aboutFault: false,
    async run(w) {
      const [a, b] = w.claims()
      const ending = new AbortController()
      const request = { key: w.key, claim: a, holder: w.holder(a), ttlMs: w.longMs }
      const call = w.store.acquire(request, { signal: ending.signal, timeoutMs: w.longMs }).catch(() => undefined)
      ending.abort()
      await call
      await w.granted(b, { key: `${w.key}other` })
      await w.freed(b, { key: `${w.key}other` })
    },
  },
]
