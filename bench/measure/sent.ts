// How many commands a client sends. The server's own count has what scripts call among them.
import type { Redis } from 'ioredis5'

/** Counts from now on. Gives the way to read how many there were. */
export function countSent(client: Redis): () => number {
  const send = client.sendCommand.bind(client)
  let sent = 0
  client.sendCommand = (...args) => {
    sent++
    return send(...args)
  }
  return () => sent
}
