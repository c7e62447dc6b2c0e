// What a server of Redis tells of itself: INFO and the settings that matter here, each of which may be forbidden. Settings are
// asked for by name: a list of all would hold passwords.

/** Sends a command to one server. */
export type Send = (command: string, ...args: string[]) => Promise<unknown>

export interface ServerReading {
  /** The lines of INFO; undefined when it is forbidden. */
  readonly info: ReadonlyMap<string, string> | undefined
  /** A setting; undefined when it cannot be read, or the server does not know it. */
  setting(name: string): string | undefined
}

const SETTINGS = [
  'maxmemory',
  'maxmemory-policy',
  'appendonly',
  'appendfsync',
  'save',
  'min-replicas-to-write',
  'min-replicas-max-lag',
  'timeout',
  'tcp-keepalive',
  'client-output-buffer-limit',
  'cluster-node-timeout',
  'cluster-require-full-coverage',
] as const

export async function readServer(send: Send): Promise<ServerReading> {
  const [info, ...values] = await Promise.all([readInfo(send), ...SETTINGS.map((name) => readSetting(send, name))])
  const settings = new Map(SETTINGS.map((name, place) => [name as string, values[place]]))
  return { info, setting: (name) => settings.get(name) }
}

async function readInfo(send: Send): Promise<Map<string, string> | undefined> {
  try {
    return linesOf(String(await send('info')))
  } catch (error) {
    if (isForbidden(error)) return undefined
    throw error
  }
}

/** `name:value` lines, as INFO and CLUSTER INFO have them. */
export function linesOf(text: string): Map<string, string> {
  const lines = text.split(/\r?\n/).flatMap((line) => {
    const colon = line.indexOf(':')
    return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1)] as const] : []
  })
  return new Map(lines)
}

async function readSetting(send: Send, name: string): Promise<string | undefined> {
  try {
    return fieldsOf(await send('config', 'get', name)).get(name)
  } catch (error) {
    if (isForbidden(error)) return undefined
    throw error
  }
}

/** Names and values in turn, or as an object, by the protocol. */
export function fieldsOf(reply: unknown): Map<string, string> {
  if (!Array.isArray(reply)) return new Map(Object.entries((reply ?? {}) as object).map(([k, v]) => [k, String(v)]))
  const fields = new Map<string, string>()
  for (let place = 0; place + 1 < reply.length; place += 2) fields.set(String(reply[place]), String(reply[place + 1]))
  return fields
}

/** A refusal of the server's, as managed ones answer CONFIG: by an ACL, or as if they did not know it. */
export const isForbidden = (error: unknown): boolean =>
  error instanceof Error &&
  /^(NOPERM|ERR unknown (sub)?command|ERR Unknown|ERR .*not (allowed|supported|permitted))/i.test(error.message)
