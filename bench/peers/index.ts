// The libraries that people compare with, by the names of their folders.
import type { Library } from './library.js'
import { redisSemaphore } from './redis-semaphore.js'
import { redlockUniversal } from './redlock-universal.js'
import { redlock4 } from './redlock4.js'
import { redlock5, sesame } from './redlock5.js'
import { verrou } from './verrou.js'

export const peers: readonly Library[] = [redlock4, redlock5, sesame, redisSemaphore, redlockUniversal, verrou]
