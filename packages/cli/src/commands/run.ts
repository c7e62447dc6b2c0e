// `holdfast run KEY -- COMMAND…`: holds a lease while a command runs. The command starts after the grant, has ended before the
// release, and is ended in time when the lease is lost. docs/reference/cli.md tells it to users.
import { hostname } from 'node:os'
import type { Command } from 'commander'
import { createLeases, type Lease, type LeaseEvent, LeaseHeldError } from 'holdfast'
import { connectAs } from '../connect.js'
import { CliError, EXIT, messageOf, usageError } from '../exit.js'
import { type Gone, Guard } from '../run/guard.js'
import { type Instant, later, now } from '../run/instants.js'
import { Signals, signalNumber } from '../run/signals.js'
import { type Terms, terms } from '../run/terms.js'
import { exactDuration, parseDuration, quote, roughDuration } from '../text.js'
import { checkHolder, checkKey } from './key.js'
import { type StoreOptions, withStore } from './options.js'

const TTL_MS = 30_000
const WAIT_MS = 10_000

/** How long a store that does not answer may keep the end waiting. Nothing is held any more; what it misses, the ttl mends. */
const CLOSE_MS = 2_000

const HELP = `
COMMAND gets HOLDFAST_KEY, HOLDFAST_TOKEN and HOLDFAST_HOLDER in its environment. Its standard streams are those of holdfast.
Durations are written 500ms, 30s, 5m or 2h.

The lease is renewed at half of --ttl. Its margin is a fifth of --ttl, at least 1s: that long before the store would let
another in, a lease that could not be renewed counts as lost. Then COMMAND and all processes of its group get SIGTERM, and
after --grace SIGKILL. A watchdog process does this, also when holdfast itself is stopped (Ctrl-Z, SIGSTOP): the watchdog is
not stopped with it. When holdfast is killed (kill -9), the group gets SIGTERM at once and SIGKILL after --grace.

What this cannot do:
  - If everything is frozen together (a virtual machine, a laptop that sleeps), COMMAND dies within a second of the thaw.
    Until then, and if holdfast and its watchdog are both killed, only its token protects: what it writes to should check
    HOLDFAST_TOKEN.
  - Processes that leave the group of COMMAND (setsid, daemons) or change their user escape.
Processes that COMMAND leaves behind in its group keep the lease until they end.

COMMAND has a session of its own, without a controlling terminal: it reads and writes the terminal through its standard
streams, but cannot open /dev/tty (password prompts of ssh or sudo). SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and
SIGWINCH are passed on to its group. Ctrl-Z stops the group and holdfast; the lease is not renewed meanwhile, and when it
runs out the group is ended; fg continues the group if the lease still stands. nohup belongs after the --.

Exit codes: that of COMMAND (128 + n when signal n ended it), and
  ${EXIT.usage}   bad usage
  ${EXIT.unavailable}   the store cannot be reached; COMMAND was not started
  ${EXIT.internal}   a fault of holdfast's own, or its watchdog was killed; COMMAND was ended
  ${EXIT.held}   another holds the lease and the wait is over; COMMAND was not started
  ${EXIT.lost}   the lease was lost; COMMAND was ended
  ${EXIT.notExecutable}  COMMAND cannot be executed
  ${EXIT.notFound}  COMMAND was not found

Examples:
  holdfast run nightly-report -- ./report.sh
  holdfast run deploy --wait 5m -- sh -c 'make deploy && make check'
  holdfast run cron/cleanup --wait 0s --min-hold 1m -- ./cleanup`

interface RunOptions extends StoreOptions {
  ttl?: string
  wait?: string
  grace?: string
  minHold?: string
  holder?: string
}

/** All that was asked, checked. */
interface Plan extends Terms {
  readonly key: string
  readonly file: string
  readonly args: readonly string[]
  readonly waitMs: number
  readonly minHoldMs: number
  readonly holder: string
}

export function addRun(program: Command): void {
  const command = program
    .command('run')
    .usage('[options] KEY -- COMMAND…')
    .argument('<key>', 'what to hold')
    .argument('<command...>', 'what to run, after --')
    .description('hold a lease while a command runs')
    .option(
      '--ttl <duration>',
      `how long the lease lasts if it is not renewed, at least 3s (default: ${exactDuration(TTL_MS)})`,
    )
    .option(
      '--wait <duration>',
      `how long to wait while another holds it; 0s: not at all, forever: without end (default: ${exactDuration(WAIT_MS)})`,
    )
    .option(
      '--grace <duration>',
      'from SIGTERM to SIGKILL, at most the margin less 250ms (default: half of the margin, at most 10s)',
    )
    .option(
      '--min-hold <duration>',
      'keep the key taken for at least this long, also when COMMAND ends earlier (default: 0s)',
    )
    .option('--holder <name>', 'who this is, for people (default: host:pid)')
    .addHelpText('after', HELP)
  withStore(command).action(async (key: string, words: string[], options: RunOptions) => {
    const plan = planOf(key, words, options)
    if (process.platform === 'win32')
      throw new CliError(EXIT.internal, 'run needs process groups, which Windows does not have')
    process.exitCode = await run(plan, options)
  })
}

function planOf(key: string, [file, ...args]: readonly string[], options: RunOptions): Plan {
  if (!process.argv.includes('--')) throw usageError('put -- before the command: holdfast run KEY -- COMMAND…')
  if (file === undefined || file === '') throw usageError('the command after -- is missing')
  checkKey(key)
  const read = (option: string, text: string | undefined, otherwise: number) =>
    text === undefined ? otherwise : parseDuration(option, text)
  const grace = options.grace === undefined ? undefined : parseDuration('--grace', options.grace)
  if (options.holder !== undefined) checkHolder(options.holder)
  return {
    key,
    file,
    args,
    ...terms(read('--ttl', options.ttl, TTL_MS), grace),
    waitMs: options.wait === 'forever' ? Number.POSITIVE_INFINITY : read('--wait', options.wait, WAIT_MS),
    minHoldMs: read('--min-hold', options.minHold, 0),
    holder: options.holder ?? `${hostname()}:${process.pid}`,
  }
}

/** Gives the exit code. */
async function run(plan: Plan, options: StoreOptions): Promise<number> {
  const { store } = await connectAs(options.store)
  const signals = new Signals()
  let onRenewed = () => {}
  const onEvent = (event: LeaseEvent) => {
    if (event.type === 'renewed') onRenewed()
    else if (event.type === 'renewal-failed')
      tell(`cannot renew the lease: ${messageOf(event.cause)}; ${roughDuration(event.remainingMs)} are left`)
  }
  const { ttlMs, marginMs, holder, waitMs, minHoldMs } = plan
  if (store.capabilities.clock === 'observed' && waitMs < ttlMs)
    tell(
      `this store has no clock: with --wait ${exactDuration(waitMs)} below --ttl ${exactDuration(ttlMs)} it cannot take over from a holder that has died`,
    )
  const leases = createLeases({ store, holder, ttlMs, marginMs, minHoldMs, onEvent })
  try {
    const lease = await leases.acquire(plan.key, { waitMs, signal: signals.ended }).catch((error: unknown) => {
      throw signals.ended.aborted ? new Ended(signals.ended.reason as NodeJS.Signals) : error
    })
    let stoodToTheEnd = true
    let code: number
    try {
      code = await runUnder(lease, plan, signals, (listener) => {
        onRenewed = listener
      })
    } finally {
      stoodToTheEnd = await giveBack(lease)
    }
    if (!stoodToTheEnd)
      throw new CliError(EXIT.lost, `the lease on ${quote(plan.key)} had ended at the store before COMMAND did`)
    return code
  } catch (error) {
    if (error instanceof Ended) return EXIT.signalled + signalNumber(error.signal)
    if (error instanceof LeaseHeldError) throw new CliError(EXIT.held, error.message, { cause: error })
    throw error
  } finally {
    signals.done()
    await leases.close({ drainMs: CLOSE_MS })
  }
}

/** A signal ended it before there was a command. */
class Ended {
  readonly signal: NodeJS.Signals

  constructor(signal: NodeJS.Signals) {
    this.signal = signal
  }
}

/** Runs the command under a lease that is held, and gives the exit code when no process of its group is left. */
async function runUnder(
  lease: Lease,
  plan: Plan,
  signals: Signals,
  whenRenewed: (listener: () => void) => void,
): Promise<number> {
  const { key, file, args, graceMs } = plan
  const guard = await Guard.start({
    key,
    graceMs,
    onExited: () => tell('COMMAND has ended; the lease is kept until the processes that it left behind end'),
  })
  whenRenewed(() => guard.renewed(deadlineOf(lease)))
  if (signals.ended.aborted) {
    guard.abandon()
    throw new Ended(signals.ended.reason as NodeJS.Signals)
  }
  const env = { HOLDFAST_KEY: key, HOLDFAST_TOKEN: String(lease.token), HOLDFAST_HOLDER: plan.holder }
  const started = await guard.run({ file, args, env }, deadlineOf(lease))
  if (started.is === 'not started') {
    if (started.why === 'late')
      throw new CliError(EXIT.lost, `the lease on ${quote(key)} was lost before COMMAND could be started`)
    const code = started.why === 'not found' ? EXIT.notFound : EXIT.notExecutable
    throw new CliError(
      code,
      `${quote(file)} ${started.why === 'not found' ? 'was not found' : `cannot be executed: ${started.message}`}`,
    )
  }
  signals.forwardTo(started.pgid, () => lease.held)
  // The signal also aborts when holdfast is told to end: that was passed on already.
  const onLost = () => {
    if (!lease.held) guard.end(started.pgid)
  }
  lease.signal.addEventListener('abort', onLost)
  if (lease.signal.aborted) onLost()
  const gone = await started.gone
  lease.signal.removeEventListener('abort', onLost)
  signals.done()
  return codeOf(gone, lease, plan)
}

function codeOf(gone: Gone, lease: Lease, plan: Plan): number {
  const ended = gone.endedBy === null ? 'it ended meanwhile' : 'it was ended'
  if (gone.endedBy === 'watchdog')
    throw new CliError(EXIT.internal, 'the watchdog process was killed, so COMMAND was ended')
  if (gone.endedBy !== null || !lease.held) {
    const reason: unknown = lease.held ? undefined : lease.signal.reason
    throw new CliError(
      EXIT.lost,
      `${reason instanceof Error ? reason.message : `the lease on ${quote(plan.key)} was not renewed in time`}; COMMAND: ${ended}`,
    )
  }
  if (gone.signal !== null) return EXIT.signalled + signalNumber(gone.signal)
  return gone.code ?? EXIT.internal
}

/** No process of the command is left: the lease can go. False when it was believed in, and the store says that it had ended. */
async function giveBack(lease: Lease): Promise<boolean> {
  const wasHeld = lease.held
  const released = await lease.release()
  if (released.is === 'unknown')
    tell(`could not give the lease back (${messageOf(released.cause)}); it runs out by itself`)
  return !(released.is === 'lost' && wasHeld)
}

/** When the lease ends, as an instant that the watchdog can read. The clocks are read first: a freeze in between errs early. */
function deadlineOf(lease: Lease): Instant {
  const from = now()
  return later(from, lease.remainingMs)
}

const tell = (text: string) => process.stderr.write(`holdfast: ${text}\n`)
