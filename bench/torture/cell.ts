// One fault and one library, in a process of their own: what a library does to its process is a part of what it does. Prints the
// line as JSON.
import { peers } from '../peers/index.js'
import { faults } from './faults/index.js'
import { holdfast } from './holdfast.js'
import { World } from './world.js'

process.on('SIGTERM', () => process.exit(1)) // so that the servers end with it

const [faultName, libraryName] = process.argv.slice(2)
const fault = faults.find(({ name }) => name === faultName)
const library = [holdfast, ...peers].find(({ name }) => name === libraryName)
if (fault === undefined || library === undefined) throw new Error(`unknown: ${faultName} ${libraryName}`)

const world = await World.start(fault.servers)
const line = await fault.run(library, world)
process.stdout.write(`${JSON.stringify(line)}\n`, () => process.exit(0))
