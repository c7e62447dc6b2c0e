// Names of leases as keys of a bucket, one-to-one (G11): a bucket takes letters, digits and a few signs, and a dot divides.
// Whatever else there is goes as `=` and two hexadecimal digits for each byte of UTF-8.

const PLAIN = /^[A-Za-z0-9_/-]$/
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** The key in the bucket. */
export function toBucketKey(key: string): string {
  let name = ''
  for (const sign of key) {
    if (PLAIN.test(sign)) name += sign
    else for (const byte of encoder.encode(sign)) name += `=${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return name
}

/** The name of the lease; undefined for a key that is nobody's. */
export function fromBucketKey(name: string): string | undefined {
  const bytes: number[] = []
  for (let place = 0; place < name.length; place++) {
    if (name[place] !== '=') bytes.push(name.charCodeAt(place))
    else {
      bytes.push(Number.parseInt(name.slice(place + 1, place + 3), 16))
      place += 2
    }
  }
  try {
    const key = decoder.decode(Uint8Array.from(bytes))
    return toBucketKey(key) === name ? key : undefined
  } catch {
    return undefined
  }
}
