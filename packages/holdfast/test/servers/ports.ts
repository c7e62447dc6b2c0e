// Ports for the servers of tests. Test files run in several processes at once, and a server that was killed is started again on its
// port: so a port is reserved, for all processes of this machine, until the process that took it has ended.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const HOST = '127.0.0.1'
/** Below those that systems give to connections which go out. A node of a Redis Cluster also uses the one 10,000 above. */
const FIRST = 11_000
const LAST = 20_999
const BUS = 10_000

const folder = join(tmpdir(), `holdfast-ports-${process.getuid?.() ?? 'all'}`)
const mine = new Set<string>()
process.once('exit', () => {
  for (const file of mine) rmSync(file, { force: true })
})

let next = FIRST + Math.floor((process.pid * 37) % (LAST - FIRST))

/** A port that nobody uses, and no other process gets while this one runs; and so is the one 10,000 above it. */
export async function freePort(): Promise<number> {
  mkdirSync(folder, { recursive: true })
  for (let tries = FIRST; tries <= LAST; tries++) {
    const port = next++
    if (next > LAST) next = FIRST
    if (reserve(port) && (await isFree(port)) && (await isFree(port + BUS))) return port
  }
  throw new Error(`no port from ${FIRST} to ${LAST} is free`)
}

function reserve(port: number): boolean {
  const file = join(folder, String(port))
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' })
    mine.add(file)
    return true
  } catch {
    forgetTheDead(file)
    return false
  }
}

/** What a process left that could not clean up is free from the next time on. */
function forgetTheDead(file: string): void {
  try {
    const pid = Number(readFileSync(file, 'utf8'))
    if (pid > 0) process.kill(pid, 0)
  } catch (error) {
    if ((error as { code?: string }).code === 'ESRCH') rmSync(file, { force: true })
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, HOST, () => server.close(() => resolve(true)))
  })
}
