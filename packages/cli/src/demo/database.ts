// The process `db` of the demo: stands in for the database. It keeps the leases, by a clock that is moved by hand so that the
// story is the same on every run, and the two registers. It also sees to it that nobody is left behind: a frozen contender
// cannot end itself.
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import type { Grant } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import type { Register } from './cast.js'
import { memoryRegisters, sqliteRegisters } from './registers.js'
import { storeVerbs } from './remote-store.js'
import { answer, type Verbs } from './rpc.js'

const [, , socket = '', registersPath = ''] = process.argv

const contenders: number[] = []
let monoMs = 0
const store = memoryStore({
  clock: { monoMs: () => monoMs, wallMs: () => monoMs, setTimer: () => ({ cancel() {}, keepAlive() {} }) },
})
const registers = registersPath === '' ? memoryRegisters() : sqliteRegisters(registersPath)

const verbs: Verbs = {
  ...storeVerbs(store),
  capabilities: async () => store.capabilities,
  advance: async (ms: number) => {
    monoMs += ms
  },
  write: async (register: Register, text: string, grant: Grant) => registers.write(register, text, grant),
  read: async (register: Register) => registers.read(register),
}

const server = createServer((connection) => answer(connection, verbs))
server.listen(socket, () => process.send?.({ is: 'ready' }))

process.on('message', (pid: number) => contenders.push(pid))

process.on('disconnect', () => {
  for (const pid of contenders) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
  // The director removes its folder itself, unless it was killed.
  rmSync(dirname(socket), { recursive: true, force: true })
  process.exit()
})
