// The `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header): a structured-field string. Many clients send it without
// quotes; that is read as the same key.

/** The longest key that is taken, in characters. */
export const KEY_LENGTH_MAX = 255

/** The key in the header's value; undefined when it is malformed. */
export function parseKey(value: string): string | undefined {
  const trimmed = value.trim()
  const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"[\t ]*(?:;[\x20-\x7e]*)?$/.exec(trimmed)
  const key = quoted
    ? (quoted[1] ?? '').replaceAll(/\\(["\\])/g, '$1')
    : /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x7e]+$/.exec(trimmed)?.[0]
  return key === undefined || key === '' || key.length > KEY_LENGTH_MAX ? undefined : key
}
