// The garbage collector on demand, without a flag on the command line.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void
setFlagsFromString('--no-expose-gc')

export function collectGarbage(): void {
  gc()
}

/** How many bytes of the heap are in use, after a collection. */
export function heapBytes(): number {
  gc()
  return process.memoryUsage().heapUsed
}
