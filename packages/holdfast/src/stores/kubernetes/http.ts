// What the answers of an API server are over HTTP: text, lines of a watch, or an error with the body of a Status.

/** A body that comes in pieces. */
export type Body = AsyncIterable<Uint8Array>

/** An answer that is no success, in the form in which clients of Kubernetes tell it. */
export class ApiError extends Error {
  readonly code: number
  readonly body: string
  readonly headers: Readonly<Record<string, unknown>>

  constructor(code: number, body: string, headers: Readonly<Record<string, unknown>>) {
    super(`the API server answered ${code}`)
    this.name = 'ApiError'
    this.code = code
    this.body = body
    this.headers = headers
  }
}

export async function readText(body: Body): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const piece of body) text += decoder.decode(piece, { stream: true })
  return text + decoder.decode()
}

/** Calls back with each line; a character, or a line, may come in several pieces. */
export async function readLines(body: Body, onLine: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of body) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.trim() !== '') onLine(line)
  }
}
