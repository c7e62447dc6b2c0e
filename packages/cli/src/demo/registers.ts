// The data that the lease of the demo is about: one report in two registers. The plain one takes whatever comes; the fenced one
// asks a fence first, in the same atomic step. Each kind of store has its own, beside its scheme, where it has a fence.
import type { Grant } from 'holdfast'
import { StaleTokenError } from 'holdfast'
import type { Register, Written } from './cast.js'

export interface Registers {
  write(register: Register, text: string, grant: Grant): Promise<Written>
  read(register: Register): Promise<string>
  /** Removes all of it, and closes what was opened. */
  close(): Promise<void>
}

/** In memory: the rule of a fence in its plainest form. It admits a bigger token, and an equal one of the same claim. */
export function memoryRegisters(): Registers {
  const texts = { plain: '', fenced: '' }
  let admitted = { token: 0, claim: '' }
  return {
    async write(register, text, { token, claim }) {
      if (register === 'fenced') {
        if (token < admitted.token || (token === admitted.token && claim !== admitted.claim))
          return { is: 'stale', admitted: admitted.token }
        admitted = { token, claim }
      }
      texts[register] = text
      return { is: 'written' }
    },
    read: async (register) => texts[register],
    async close() {},
  }
}

/** Where no fence belongs to the store: a plain register only, in memory. */
export function plainRegister(): Registers {
  const registers = memoryRegisters()
  return {
    ...registers,
    async write(register, text, grant) {
      if (register === 'fenced') throw new Error('there is no fence here')
      return registers.write(register, text, grant)
    },
  }
}

/** What became of a write: a stale token is an answer. */
export async function written(write: () => unknown): Promise<Written> {
  try {
    await write()
    return { is: 'written' }
  } catch (error) {
    if (error instanceof StaleTokenError) return { is: 'stale', admitted: error.admitted ?? null }
    throw error
  }
}
