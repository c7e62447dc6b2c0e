// The process `db` of the demo: stands in for the database. It keeps the leases, by a clock that is moved by hand so that the
// story is the same on every run, and the two registers: its own, or those of a store that was named. It also sees to it that
// nothing and nobody is left behind: a frozen contender cannot end itself.
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import type { Grant } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import { messageOf } from '../exit.js'
import { openUrl } from '../stores/index.js'
import type { DatabaseCue, Register, Reply } from './cast.js'
import { memoryRegisters, plainRegister, type Registers } from './registers.js'
import { storeVerbs } from './remote-store.js'
import { answer, type Verbs } from './rpc.js'

/** How long the removal of the registers may take when the director is gone. */
const CLEAR_MS = 3_000

const contenders: number[] = []
let registers: Registers = memoryRegisters()
let folder: string | undefined
let monoMs = 0
const store = memoryStore({
  clock: { monoMs: () => monoMs, wallMs: () => monoMs, setTimer: () => ({ cancel() {}, keepAlive() {} }) },
})

const verbs: Verbs = {
  ...storeVerbs(store),
  capabilities: async () => store.capabilities,
  advance: async (ms: number) => {
    monoMs += ms
  },
  write: (register: Register, text: string, grant: Grant) => registers.write(register, text, grant),
  read: (register: Register) => registers.read(register),
}

// Ctrl-C reaches the whole group: this process ends when the director has.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

process.on('message', async (cue: DatabaseCue) => {
  let reply: Reply = { is: 'done' }
  try {
    await act(cue)
  } catch (error) {
    reply = { is: 'failed', message: messageOf(error) }
  }
  if (cue.do !== 'mind') process.send?.(reply)
})

async function act(cue: DatabaseCue): Promise<void> {
  switch (cue.do) {
    case 'open': {
      folder = dirname(cue.socket)
      if (cue.storeUrl !== null) registers = await registersOf(cue.storeUrl, cue.name, folder)
      const server = createServer((connection) => answer(connection, verbs))
      await new Promise<void>((resolve) => server.listen(cue.socket, resolve))
      return
    }
    case 'mind':
      contenders.push(cue.pid)
      return
    case 'clear': {
      const before = registers
      registers = memoryRegisters()
      return before.close()
    }
  }
}

async function registersOf(url: string, name: string, folder: string): Promise<Registers> {
  const connection = await openUrl(url)
  if (connection.registers === undefined) {
    await connection.store.close()
    return plainRegister()
  }
  await connection.ready?.()
  const opened = await connection.registers({ name, folder })
  return {
    ...opened,
    async close() {
      await opened.close()
      await connection.store.close()
    },
  }
}

process.on('disconnect', async () => {
  for (const pid of contenders) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
  // The director removes its folder itself, unless it was killed.
  const end = () => {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
    process.exit()
  }
  setTimeout(end, CLEAR_MS)
  await registers.close().catch(() => {})
  end()
})
