// Results as they are kept: encoded before they are sent, so that what cannot be carried fails at the first run, and decoded for each
// repeat.
import { HoldfastError, InvalidArgumentError, StoreError } from '../lease/errors.js'
import type { Codec } from './codec.js'
import type { StoredEnd } from './contract.js'

const encoder = new TextEncoder()

/** The result as text. Throws when the codec cannot carry it, or it is too large. */
export function encodeResult<T>(
  value: T,
  { codec, resultBytesMax }: { codec: Codec<T>; resultBytesMax: number },
): string {
  const text = codec.encode(value)
  if (typeof text !== 'string') throw new InvalidArgumentError('codec', text, 'must encode to text')
  if (text.includes('\0')) throw new InvalidArgumentError('codec', text, 'must encode to text without NUL')
  if (text.length * 3 > resultBytesMax && encoder.encode(text).length > resultBytesMax) {
    throw new InvalidArgumentError('result', text, `must be at most ${resultBytesMax} bytes as text (resultBytesMax)`)
  }
  return text
}

/** The result of an earlier run. Throws what an earlier run threw. */
export function decodeEnd<T>(end: StoredEnd, codecs: { codec: Codec<T>; failureCodec: Codec<unknown> }): T {
  let failure: unknown
  try {
    if (end.is === 'returned') return codecs.codec.decode(end.text)
    failure = codecs.failureCodec.decode(end.text)
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause
    const said = cause instanceof Error ? cause.message : String(cause)
    throw new StoreError(`the stored result cannot be read by the codec that was given: ${said}`, {
      outcome: 'none',
      cause,
    })
  }
  throw failure
}
