// Starts the programs of the process cases, hears what they say, and waits for their end.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export type Kind = 'holdfast' | 'naive'

export interface Program {
  /** Resolves with the time of day at which the program said a line that starts like this; throws if it ends without. */
  said(start: string): Promise<number>
  /** Whether it has said so by now. */
  hasSaid(start: string): boolean
  kill(signal: NodeJS.Signals): void
  readonly ended: Promise<Ended>
}

export interface Ended {
  readonly code: number | null
  readonly stderr: string
  /** What it said, without the times. */
  readonly lines: readonly string[]
  /** From its last line to its end. */
  readonly lingeredMs: number
}

/** Nothing here takes longer, even on a machine with much else to do. */
const LONGEST_MS = 45_000

export function start(kind: Kind, name: string, ...args: string[]): Program {
  const path = fileURLToPath(new URL(`./${name}.mjs`, import.meta.url))
  const loader = kind === 'naive' ? ['--import', 'tsx'] : []
  const env = { PATH: process.env.PATH, HOME: process.env.HOME }
  const child = spawn(process.execPath, [...loader, path, kind, ...args], { env })
  const heard: { atMs: number; text: string }[] = []
  let stderr = ''
  let rest = ''
  let over = false
  const listeners: (() => void)[] = []
  const tell = () => {
    for (const listener of listeners.splice(0)) listener()
  }
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [atMs = '', ...words] = line.split(' ')
      heard.push({ atMs: Number(atMs), text: words.join(' ') })
    }
    tell()
  })
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    stderr += chunk
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS)
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => {
      clearTimeout(limit)
      over = true
      tell()
      const lastMs = heard.at(-1)?.atMs ?? Date.now()
      resolve({ code, stderr, lines: heard.map(({ text }) => text), lingeredMs: Date.now() - lastMs })
    })
  })
  const find = (text: string) => heard.find((line) => line.text.startsWith(text))
  return {
    async said(text) {
      for (;;) {
        const line = find(text)
        if (line !== undefined) return line.atMs
        if (over)
          throw new Error(`it ended without saying "${text}": ${heard.map((one) => one.text).join(', ')} ${stderr}`)
        await new Promise<void>((resolve) => listeners.push(resolve))
      }
    },
    hasSaid: (text) => find(text) !== undefined,
    kill: (signal) => void child.kill(signal),
    ended,
  }
}
