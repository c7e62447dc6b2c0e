// Responses as they are kept: status, headers and body, without what belongs to one connection or one client. A repeat is a new
// message: it gets a date, a length and a transfer of its own, and no cookies of a session that may be over.
import type { Codec } from '../idempotency/codec.js'
import { InvalidArgumentError } from '../lease/errors.js'
import type { Answer } from './problem.js'

/** A response of the handler. `rest`: it was longer than what is kept. */
export interface Captured extends Answer {
  readonly rest?: ReadableStream<Uint8Array> | undefined
  /** It was longer than what is kept, and has been sent. */
  readonly overflow?: boolean | undefined
}

const NEVER_KEPT = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'date',
])

/** Whether a header is kept by default: all but cookies. */
export const keptByDefault = (name: string): boolean => name !== 'set-cookie'

interface Kept {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly text?: string
  readonly base64?: string
}

/** Writes a response with the headers that are to be kept. */
export function responseCodec(keepHeader: (name: string) => boolean, bytesMax: number): Codec<Captured> {
  return {
    encode({ status, headers, body, rest, overflow }) {
      if (rest !== undefined || overflow === true || body.length > bytesMax) {
        throw new InvalidArgumentError('response', status, `must have at most ${bytesMax} bytes (responseBytesMax)`)
      }
      const named = new Set(
        headers
          .filter(([name]) => name.toLowerCase() === 'connection')
          .flatMap(([, value]) =>
            value
              .toLowerCase()
              .split(',')
              .map((name) => name.trim()),
          ),
      )
      const kept = headers
        .map(([name, value]) => [name.toLowerCase(), value] as const)
        .filter(([name]) => !NEVER_KEPT.has(name) && !named.has(name) && keepHeader(name))
      const response: Kept = { status, headers: kept, ...bodyOf(body) }
      return JSON.stringify(response)
    },
    decode(text) {
      const { status, headers, text: plain, base64 } = JSON.parse(text) as Kept
      const body = base64 === undefined ? encoder.encode(plain) : fromBase64(base64)
      return { status, headers, body }
    },
  }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function bodyOf(bytes: Uint8Array): { text: string } | { base64: string } {
  try {
    return { text: decoder.decode(bytes) }
  } catch {
    return { base64: toBase64(bytes) }
  }
}

function toBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192))
  return btoa(binary)
}

const fromBase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
