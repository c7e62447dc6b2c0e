// Refusals as problem documents (RFC 9457): a status for machines in between, a code for programs, a sentence for people.

/** A response before it is sent, whatever the framework. */
export interface Answer {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Uint8Array
}

/** What a refusal says. */
export interface Problem {
  readonly status: number
  /** For programs: the `code` of the document, and the end of its `type`. */
  readonly code: string
  readonly title: string
  readonly detail: string
  /** After so many seconds it makes sense to ask again. */
  readonly retryAfterSeconds?: number
}

const encoder = new TextEncoder()

export function problemAnswer({ status, code, title, detail, retryAfterSeconds }: Problem): Answer {
  const type = `urn:holdfast:${code.toLowerCase().replaceAll('_', '-')}`
  const headers: [string, string][] = [
    ['content-type', 'application/problem+json'],
    ['cache-control', 'no-store'],
  ]
  if (retryAfterSeconds !== undefined) headers.push(['retry-after', String(retryAfterSeconds)])
  return { status, headers, body: encoder.encode(JSON.stringify({ type, title, status, detail, code })) }
}

/** Statuses that have no body. */
const BODILESS = new Set([101, 103, 204, 205, 304])

/** The answer as a web-standard Response. */
export function responseOf(answer: Answer & { readonly rest?: ReadableStream<Uint8Array> | undefined }): Response {
  const { status, headers, body, rest } = answer
  const content = BODILESS.has(status)
    ? null
    : rest === undefined
      ? (body as Uint8Array<ArrayBuffer>)
      : joined(body, rest)
  const response = new Response(content, { status })
  for (const [name, value] of headers) response.headers.append(name, value)
  return response
}

/** Bytes that were read already, and what follows. */
export function joined(start: Uint8Array, rest: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = rest.getReader()
  let begun = false
  return new ReadableStream({
    async pull(controller) {
      if (!begun) {
        begun = true
        controller.enqueue(start)
        return
      }
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: (reason) => reader.cancel(reason),
  })
}

/** Reads a body, at most so many bytes. `rest` is what is left when there are more. */
export async function readBounded(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<{ bytes: Uint8Array; rest: ReadableStream<Uint8Array> | undefined }> {
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = body?.getReader()
  while (reader !== undefined) {
    const { done, value } = await reader.read()
    if (done) break
    chunks.push(value)
    length += value.length
    if (length <= bytesMax) continue
    reader.releaseLock()
    return { bytes: concat(chunks, length), rest: body ?? undefined }
  }
  return { bytes: concat(chunks, length), rest: undefined }
}

export function concat(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const [first] = chunks
  if (chunks.length === 1 && first !== undefined) return first
  const all = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}
