// The protocol of observed expiry, over an engine in memory that has versions and no clock.
import { describe, it } from 'vitest'
import { KEY_BYTES_MAX } from '../../src/lease/keys.js'
import { observedStore } from '../../src/store/observed/store.js'
import { runConformance, seededRandom, VirtualClock } from '../../src/testing/index.js'
import { VersionedRegister } from '../../src/testing/versioned-register.js'

runConformance({
  describe,
  it,
  name: 'observed expiry',
  create() {
    const clock = new VirtualClock()
    const register = new VersionedRegister()
    const open = () =>
      observedStore({
        name: 'register',
        records: register.connect(),
        clock,
        random: seededRandom(1),
        capabilities: {
          clock: 'observed',
          tokens: 'sequence',
          holdSurvives: ['client restart'],
          tokensSurvive: ['pruning'],
          ttlMsMin: 1,
          ttlMsGrain: 1,
          wakeUp: 'push',
          fair: false,
          tokenFloor: false,
          keyBytesMax: KEY_BYTES_MAX,
        },
      })
    return { store: open(), open, passMs: (ms) => clock.advance(ms) }
  },
})
