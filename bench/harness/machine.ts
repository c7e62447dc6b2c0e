// Where the numbers come from. No host name and no path: a result file may be shown to anybody.
import { cpus, release, totalmem, type } from 'node:os'

export interface Machine {
  readonly cpu: string
  readonly cores: number
  /** In bytes. */
  readonly memory: number
  readonly os: string
  readonly node: string
}

export function machine(): Machine {
  const all = cpus()
  return {
    cpu: all[0]?.model.trim() ?? 'unknown',
    cores: all.length,
    memory: totalmem(),
    os: `${type()} ${release()}`,
    node: process.version,
  }
}
