// SHA-256 (FIPS 180-4), since the core runs anywhere and the platform's own answers only later: a fingerprint is one value, not
// a promise of one. A test compares it with Node's on random input.

const primes = (count: number): number[] => {
  const found: number[] = []
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n)
  return found
}

/** The first 32 bits of a fraction. */
const fraction = (value: number) => Math.floor((value - Math.floor(value)) * 2 ** 32)

const ROUNDS = Uint32Array.from(primes(64), (prime) => fraction(Math.cbrt(prime)))
const START = Uint32Array.from(primes(8), (prime) => fraction(Math.sqrt(prime)))
const encoder = new TextEncoder()

/** The digest of a text's UTF-8, or of bytes, in hexadecimal. */
export function sha256(data: string | Uint8Array): string {
  const bytes = typeof data === 'string' ? encoder.encode(data) : data
  const blocks = new Uint8Array(((bytes.length + 72) >> 6) << 6)
  blocks.set(bytes)
  blocks[bytes.length] = 0x80
  const view = new DataView(blocks.buffer)
  view.setUint32(blocks.length - 8, Math.floor(bytes.length / 2 ** 29))
  view.setUint32(blocks.length - 4, (bytes.length << 3) >>> 0)
  const state = START.slice()
  const words = new Uint32Array(64)
  for (let at = 0; at < blocks.length; at += 64) block(state, words, view, at)
  return Array.from(state, (word) => word.toString(16).padStart(8, '0')).join('')
}

const right = (word: number, by: number) => (word >>> by) | (word << (32 - by))

function block(state: Uint32Array, w: Uint32Array, view: DataView, at: number): void {
  for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i)
  for (let i = 16; i < 64; i++) {
    const [a, b] = [w[i - 15] as number, w[i - 2] as number]
    const s0 = right(a, 7) ^ right(a, 18) ^ (a >>> 3)
    const s1 = right(b, 17) ^ right(b, 19) ^ (b >>> 10)
    w[i] = (w[i - 16] as number) + s0 + (w[i - 7] as number) + s1
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number]
  for (let i = 0; i < 64; i++) {
    const s1 = right(e, 6) ^ right(e, 11) ^ right(e, 25)
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + (ROUNDS[i] as number) + (w[i] as number)) | 0
    const s0 = right(a, 2) ^ right(a, 13) ^ right(a, 22)
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g
    g = f
    f = e
    e = (d + t1) | 0
    d = c
    c = b
    b = a
    a = (t1 + t2) | 0
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + word
}
