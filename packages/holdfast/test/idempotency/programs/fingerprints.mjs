// Says its version of Node, how its language sorts three names, and the fingerprints of the texts on its standard input, a list in JSON:
// as data, and as text.
import { readFileSync } from 'node:fs'
import { fingerprintOf, fingerprintOfJson } from 'holdfast/idempotency'

const texts = JSON.parse(readFileSync(0, 'utf8'))
const fingerprints = texts.map((text) => [fingerprintOf(JSON.parse(text)), fingerprintOfJson(text)])
const sorted = ['ä', 'z', 'Z'].sort((a, b) => a.localeCompare(b))
process.stdout.write(JSON.stringify({ version: process.version, sorted, fingerprints }))
