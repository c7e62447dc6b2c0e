// Which slot of a Cluster a key is in: CRC16 (XMODEM) of its UTF-8, or of what stands in its first pair of braces, modulo 16384.

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc & 0xffff
})

/** How many slots a Cluster has. */
export const SLOTS = 16_384
const encoder = new TextEncoder()

/** The part of a key that decides: between the first `{` and the next `}`, unless that is empty. */
function hashed(key: string): string {
  const open = key.indexOf('{')
  if (open < 0) return key
  const close = key.indexOf('}', open + 1)
  return close > open + 1 ? key.slice(open + 1, close) : key
}

/** The slot of a key. */
export function slotOf(key: string): number {
  let crc = 0
  for (const byte of encoder.encode(hashed(key))) crc = ((crc << 8) ^ (TABLE[((crc >> 8) ^ byte) & 0xff] ?? 0)) & 0xffff
  return crc % SLOTS
}

let tags: string[] | undefined

/** A short text whose slot is the one given, always the same: for keys that must lie beside a key of any name. */
export function tagOf(slot: number): string {
  tags ??= findTags()
  return tags[slot] ?? ''
}

function findTags(): string[] {
  const found = new Array<string>(SLOTS)
  let missing = SLOTS
  for (let n = 0; missing > 0; n++) {
    const tag = n.toString(36)
    const slot = slotOf(tag)
    if (found[slot] !== undefined) continue
    found[slot] = tag
    missing--
  }
  return found
}
