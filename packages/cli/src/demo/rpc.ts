// Questions and answers between the processes of the demo: one JSON object a line, over a socket.
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { StoreError } from 'holdfast'
import { messageOf } from '../exit.js'

interface Question {
  readonly id: number
  readonly verb: string
  readonly args: readonly unknown[]
}

type Answer =
  | { readonly id: number; readonly value?: unknown }
  | { readonly id: number; readonly failed: string; readonly outcome: 'none' | 'unknown' }

/** What can be asked. */
export type Verbs = Readonly<Record<string, (...args: never[]) => Promise<unknown>>>

/** Answers the questions that come over a socket. */
export function answer(socket: Socket, verbs: Verbs): void {
  socket.on('error', () => socket.destroy())
  createInterface({ input: socket }).on('line', async (line) => {
    const { id, verb, args } = JSON.parse(line) as Question
    let reply: Answer
    try {
      const run = verbs[verb]
      if (run === undefined) throw new StoreError(`no such verb: ${verb}`, { outcome: 'none' })
      reply = { id, value: await run(...(args as never[])) }
    } catch (error) {
      reply = {
        id,
        failed: messageOf(error),
        outcome: error instanceof StoreError ? error.outcome : 'unknown',
      }
    }
    if (!socket.destroyed) socket.write(`${JSON.stringify(reply)}\n`)
  })
}

/** Asks over a socket. A connection that ends leaves open questions with an unknown outcome. */
export function asker(socket: Socket): <Value>(verb: string, ...args: readonly unknown[]) => Promise<Value> {
  const open = new Map<number, (answer: Answer) => void>()
  let lastId = 0
  socket.on('error', () => socket.destroy())
  socket.on('close', () => {
    for (const [id, settle] of open) settle({ id, failed: 'the connection ended', outcome: 'unknown' })
  })
  createInterface({ input: socket }).on('line', (line) => {
    const reply = JSON.parse(line) as Answer
    open.get(reply.id)?.(reply)
  })
  return <Value>(verb: string, ...args: readonly unknown[]) =>
    new Promise<Value>((resolve, reject) => {
      const id = ++lastId
      open.set(id, (reply) => {
        open.delete(id)
        if ('failed' in reply) reject(new StoreError(reply.failed, { outcome: reply.outcome }))
        else resolve(reply.value as Value)
      })
      socket.write(`${JSON.stringify({ id, verb, args } satisfies Question)}\n`)
    })
}
