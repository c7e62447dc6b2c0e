// `npm run sim`: runs the simulation and says what it found.
//
//   npm run sim -- --runs 2000                    seeds 1 to 2000; the scenarios take turns
//   npm run sim -- --seed 17                      one run; --verbose prints its history
//   npm run sim -- --scenario pauses --runs 50    one scenario only
//   npm run sim -- --list                         the scenarios
//   npm run sim -- --seed 17 --keep t3,pause2     one run, and only these parts of its plan
//
// Exit code 1 when a guarantee was broken: then the seed, the two facts that clash, the shortest
// plan and history that were found by leaving things out, and the command that replays those.
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

const { values: flags } = parseArgs({
  args: isMainThread ? process.argv.slice(2) : workerData.args,
  options: {
    seed: { type: 'string' },
    runs: { type: 'string' },
    scenario: { type: 'string' },
    jobs: { type: 'string' },
    dist: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
    keep: { type: 'string' },
    first: { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
  },
})
Error.stackTraceLimit = 0 // Most errors of a run are expected answers, and their stacks cost more than the run.
const dist = new URL(flags.dist ?? '../packages/holdfast/dist/', import.meta.url)
const load = (path) => import(new URL(`testing/simulation/${path}`, dist).href)
const { scenarioNames, scenarios, shrink, simulate } = await load('index.js')
const { describeFact, fingerprint } = await load('report.js')

const first = number('seed', 1)
const runs = number('runs', flags.seed === undefined ? 200 : 1)
if (flags.scenario !== undefined && !scenarioNames.includes(flags.scenario))
  fail(`no such scenario: ${flags.scenario} (--list names them)`)
const jobs = Math.min(number('jobs', cpus().length), Math.ceil(runs / 20))

if (flags.list) for (const name of scenarioNames) console.log(`${name.padEnd(16)} ${scenarios[name].about}`)
else if (!isMainThread) await runShare(workerData.share, workerData.jobs, (done) => parentPort.postMessage(done))
else await main()

async function main() {
  const counts = {}
  const broken = []
  const fingerprints = []
  let done = 0
  const startedMs = performance.now()
  const cpu = process.cpuUsage()
  const seen = (run) => {
    done++
    for (const [name, count] of Object.entries(run.counts)) counts[name] = (counts[name] ?? 0) + count
    if (run.violations.length > 0) broken.push(run)
    if (run.fingerprint !== undefined) fingerprints.push(run.fingerprint)
    if (!flags.quiet && process.stderr.isTTY)
      process.stderr.write(`\r${done} of ${runs} runs, ${broken.length} broken `)
    else if (!flags.quiet && runs > 500 && done % 500 === 0)
      console.error(`${done} of ${runs} runs, ${broken.length} broken`)
  }
  if (jobs <= 1) await runShare(0, 1, seen)
  else await Promise.all(Array.from({ length: jobs }, (_, share) => runWorker(share, seen)))
  if (process.stderr.isTTY) process.stderr.write('\r')

  const { user, system } = process.cpuUsage(cpu)
  const cpuSeconds = (user + system) / 1e6
  for (const name of Object.keys(counts).sort())
    if (!flags.quiet) console.log(`${String(counts[name]).padStart(9)}  ${name}`)
  const cycles = counts['leases held'] ?? 0
  console.log(
    `${done} runs, ${cycles} cycles of acquire and release in ${((performance.now() - startedMs) / 1000).toFixed(1)} s: ${Math.round(cycles / cpuSeconds)} a CPU second`,
  )
  if (runs === 1) console.log(`fingerprint ${fingerprints[0]}`)
  broken.sort((a, b) => a.seed - b.seed)
  for (const run of broken.slice(0, 5)) console.log(describe(run))
  if (broken.length > 5) console.log(`and ${broken.length - 5} more broken runs`)
  if (broken[0] !== undefined && !flags['no-shrink'] && flags.keep === undefined) await showShortest(broken[0])
  process.exitCode = broken.length === 0 ? 0 : 1
}

/** Every so-manieth seed. */
async function runShare(share, of, tell) {
  for (let seed = first + share; seed < first + runs; seed += of) {
    const { plan, history, violations, counts } = await simulate({
      seed,
      ...(flags.scenario === undefined ? {} : { scenario: flags.scenario }),
      ...(flags.keep === undefined ? {} : { keep: flags.keep.split(',') }),
    })
    if (flags.verbose) for (const fact of history.facts) console.log(describeFact(fact))
    tell({
      seed,
      scenario: plan.scenario,
      counts,
      fingerprint: runs === 1 ? fingerprint(history) : undefined,
      violations: violations.map(({ guarantee, what, first: before, second }) => ({
        guarantee,
        what,
        facts: [before, second].filter((fact) => fact !== undefined).map(describeFact),
      })),
    })
    if (flags.first && violations.length > 0) return
  }
}

/** What is left when everything that the violation does not need is left out. */
async function showShortest({ seed, scenario, violations }) {
  const { plan } = await simulate({ seed, scenario })
  const shrunk = await shrink(plan, violations[0].guarantee)
  if (shrunk === undefined) return
  const names = shrunk.plan.parts.map(({ name }) => name)
  const { key } = shrunk.violation.second
  const { history } = await simulate({ seed, scenario, keep: names })
  const facts = history.facts.filter(({ atMs }) => atMs <= shrunk.violation.second.atMs)
  console.log(`\nThe shortest plan found (${shrunk.tried} tried), and what it does to ${key || 'all keys'}:`)
  for (const part of shrunk.plan.parts) console.log(`  ${JSON.stringify(part)}`)
  for (const fact of facts) if (!('key' in fact) || fact.key === key || !key) console.log(describeFact(fact))
  console.log(`replay: npm run sim -- --seed ${seed} --scenario ${scenario} --keep ${names.join(',')} --verbose`)
}

function runWorker(share, seen) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { share, jobs, args: process.argv.slice(2) } })
    worker.on('message', seen)
    worker.on('error', reject)
    worker.on('exit', resolve)
  })
}

function describe({ seed, scenario, violations }) {
  return violations
    .map(
      ({ guarantee, what, facts }) =>
        `\nseed ${seed}, scenario ${scenario}: ${guarantee} is broken: ${what}\n${facts.join('\n')}`,
    )
    .concat(`replay: npm run sim -- --seed ${seed} --scenario ${scenario} --verbose`)
    .join('\n')
}

function number(name, otherwise) {
  const value = flags[name] === undefined ? otherwise : Number(flags[name])
  if (!Number.isSafeInteger(value) || value < 0) fail(`--${name} must be a whole number, not ${flags[name]}`)
  return value
}

function fail(message) {
  console.error(message)
  process.exit(64)
}
