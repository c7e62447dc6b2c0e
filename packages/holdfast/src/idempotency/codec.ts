// How a result becomes text and comes back. The default carries plain data exactly and refuses the rest: a Date that comes back as
// text, or a Map as {}, would make the repeat differ from the first answer.
import { type Failure, RecordedFailureError } from './errors.js'
import { write } from './plain-data.js'

/** Turns values into text and back. Throws for what it cannot carry. */
export interface Codec<T> {
  encode(value: T): string
  decode(text: string): T
}

/**
 * Carries plain data exactly: null, booleans, finite numbers (-0 too), text, lists and plain objects of these, and undefined as
 * the whole result. Throws InvalidArgumentError, naming the path, for everything else.
 *
 * @example
 * ```ts
 * const text = plainCodec.encode({ id: 'payment-1', amount: 100 })
 * const back = plainCodec.decode(text)
 * ```
 */
export const plainCodec: Codec<unknown> = {
  encode: (value) => (value === undefined ? '' : write(value, { what: 'result', canonical: false })),
  decode: (text) => (text === '' ? undefined : JSON.parse(text)),
}

/** Carries name, message and code of an error; it comes back as a RecordedFailureError. */
export const failureCodec: Codec<unknown> = {
  encode(error) {
    const { name, message, code } = (typeof error === 'object' && error !== null ? error : {}) as Record<
      string,
      unknown
    >
    const kept: Failure = {
      name: typeof name === 'string' ? name : 'Error',
      message: typeof message === 'string' ? message : String(error),
      ...(typeof code === 'string' || (typeof code === 'number' && Number.isFinite(code)) ? { code } : {}),
    }
    return JSON.stringify(kept)
  },
  decode: (text) => new RecordedFailureError(JSON.parse(text) as Failure),
}
