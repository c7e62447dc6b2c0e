// The story: a holder is paused right after it has checked its lease, for longer than the lease lasts. docs/concepts say why no
// lease can prevent what follows, and why a fence can.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CliError, EXIT } from '../exit.js'
import { roughDuration } from '../text.js'
import type { Register, Reply } from './cast.js'
import { Actor } from './director.js'
import type { Narrator } from './narrator.js'
import { type Ask, dial } from './remote-store.js'

/** Where the story is played. */
export interface Stage {
  /** A store to play on in real time; null: the demo's own, by a clock that is moved by hand. */
  readonly storeUrl: string | null
  /** Whether there is a fence for that store's technology. */
  readonly fenced: boolean
}

const TTL_MS = 10_000
const PASS_MS = 15_000
/** On a real store nobody wants to wait for long. */
const REAL_TTL_MS = 3_000
const REAL_WAIT_MS = 60_000

export async function tellStory(stage: Stage, narrator: Narrator): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
  const real = stage.storeUrl !== null
  const socket = join(folder, 'db.sock')
  const key = real ? `holdfast-demo-${randomBytes(4).toString('hex')}` : 'report'
  const db = new Actor('db', './database.js')
  const cast = [db]
  // Whatever ends this process: nobody is left behind, not even the one that is frozen. db clears away, and ends by itself.
  const killAll = () => {
    for (const actor of cast) if (actor !== db) actor.kill()
  }
  process.on('exit', killAll)
  const onSignal = (_: NodeJS.Signals, number: number) => process.exit(EXIT.signalled + number)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  try {
    await db.play({ do: 'open', socket, storeUrl: stage.storeUrl, name: key })
    const a = new Actor('a', './contender.js')
    const b = new Actor('b', './contender.js')
    cast.push(a, b)
    for (const { pid } of [a, b]) db.tell({ do: 'mind', pid })
    const connection = await dial(socket)
    const scene = { socket, key, ttlMs: real ? REAL_TTL_MS : TTL_MS, storeUrl: stage.storeUrl }
    await Promise.all([a.enter(scene), b.enter(scene)])
    await play({ a, b, ask: connection.ask, key, stage, narrator })
    connection.socket.destroy()
    await db.play({ do: 'clear' })
  } finally {
    await Promise.all(cast.map((actor) => (actor === db ? actor.leave() : actor.end())))
    process.off('exit', killAll)
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Play {
  readonly a: Actor
  readonly b: Actor
  readonly ask: Ask
  readonly key: string
  readonly stage: Stage
  readonly narrator: Narrator
}

async function play({ a, b, ask, key, stage, narrator }: Play): Promise<void> {
  const real = stage.storeUrl !== null
  const { step } = narrator

  const first = granted(await a.play({ do: 'acquire', waitMs: 0 }))
  step('a', `takes the lease on "${key}" for ${roughDuration(real ? REAL_TTL_MS : TTL_MS)}: token ${first.token}`, {
    did: 'acquired',
    token: first.token,
  })

  const refused = held(await b.play({ do: 'acquire', waitMs: 0 }))
  step('b', `asks for it, and is told that ${refused.by} holds it`, { did: 'asked', heldBy: refused.by })

  await a.play({ do: 'check' })
  step('a', 'checks its lease: held. It is about to write its report ...', { did: 'checked', held: true })

  await a.freeze()
  step('demo', 'a is frozen right here (SIGSTOP): a long pause, a slow disk, a virtual machine that stands still', {
    did: 'froze',
    process: 'a',
  })

  if (!real) {
    await ask('advance', PASS_MS)
    step('db', `${roughDuration(PASS_MS)} pass on the clock of the store: the lease of a has run out`, {
      did: 'waited',
      ms: PASS_MS,
    })
  } else {
    step('db', `the lease of a is not renewed and runs out; b waits for it`, { did: 'waited' })
  }

  const second = granted(
    await b.play({ do: 'acquire', waitMs: real ? REAL_WAIT_MS : 0 }, real ? 2 * REAL_WAIT_MS : undefined),
  )
  step('b', `takes the lease: token ${second.token}`, { did: 'acquired', token: second.token })

  const registers: Register[] = stage.fenced ? ['plain', 'fenced'] : ['plain']
  for (const register of registers) await write(b, register, second.token, ask, narrator)

  // The cues reach a while it is frozen: it goes on where it stopped, with the writes, and does not look at its lease again.
  const late = a.play({ do: 'write', register: 'plain' })
  a.thaw()
  const believes = real
    ? 'goes on where it stopped: it has just checked its lease'
    : 'still believes that it holds the lease'
  step('demo', `a is thawed (SIGCONT) and ${believes}`, { did: 'thawed', process: 'a' })
  await writeLate(late, 'plain', first.token, ask, narrator)
  if (stage.fenced) await writeLate(a.play({ do: 'write', register: 'fenced' }), 'fenced', first.token, ask, narrator)
  else
    step('demo', 'no fence comes with this store, so nothing refuses the late write', {
      did: 'skipped',
      register: 'fenced',
    })
  await checkBelief(a, real, narrator)

  await a.play({ do: 'release' })
  const again = held(await a.play({ do: 'acquire', waitMs: 0 }))
  step('a', `asks for the lease again, and is told that ${again.by} holds it`, { did: 'asked', heldBy: again.by })
  await b.play({ do: 'release' })

  const plain = await ask<string>('read', 'plain')
  narrator.moral(
    `Shown: a lease alone cannot stop a holder that pauses after its check: the plain register now has ${plain}.`,
  )
  if (stage.fenced) {
    const fenced = await ask<string>('read', 'fenced')
    narrator.moral(
      `Shown: a fence that compares tokens at the write stops it: the fenced register still has ${fenced}.`,
    )
  } else {
    narrator.moral('What would stop it: a fence, that compares tokens where the data is written.')
  }
}

async function write(who: Actor, register: Register, token: number, ask: Ask, narrator: Narrator): Promise<void> {
  const reply = await who.play({ do: 'write', register })
  if (reply.is !== 'written')
    throw new CliError(EXIT.internal, 'the demo went wrong: the write of the holder was refused')
  const text = await ask<string>('read', register)
  const carried = register === 'fenced' ? ` with token ${token}` : ''
  narrator.step('b', `writes to the ${register} register${carried}: it now has ${text}`, {
    did: 'wrote',
    register,
    token,
    accepted: true,
    report: text,
  })
}

/** The write of a holder that was overtaken. */
async function writeLate(
  answer: Promise<Reply>,
  register: Register,
  token: number,
  ask: Ask,
  narrator: Narrator,
): Promise<void> {
  const reply = await answer
  const text = await ask<string>('read', register)
  const facts = { did: 'wrote', register, token, accepted: reply.is === 'written' }
  if (register === 'plain' && reply.is === 'written') {
    return narrator.step(
      'a',
      `writes to the plain register: it now has ${text}; that of b is gone, and nobody was told`,
      facts,
    )
  }
  if (register === 'fenced' && reply.is === 'stale') {
    const admitted = reply.admitted === null ? 'a bigger token' : `token ${reply.admitted}`
    return narrator.step(
      'a',
      `writes to the fenced register with token ${token}: refused as stale, since its fence has seen ${admitted}`,
      facts,
    )
  }
  throw new CliError(EXIT.internal, `the demo went wrong: the ${register} register answered ${reply.is}`)
}

/** What the lease says after the thaw. On the demo's own store hardly a moment has passed for a, so it must still say "held". */
async function checkBelief(a: Actor, real: boolean, narrator: Narrator): Promise<void> {
  const reply = await a.play({ do: 'look' })
  const believed = reply.is === 'checked' && reply.held
  if (real && !believed)
    narrator.step(
      'a',
      'looks at its lease: lost. Had it looked before each write, the pause could still have come after that look',
      { did: 'checked', held: false },
    )
  if (!real && !believed)
    throw new CliError(
      EXIT.internal,
      'this machine is so busy that the demo took longer than a lease; please try again',
    )
}

function granted(reply: Reply): Extract<Reply, { is: 'granted' }> {
  if (reply.is === 'granted') return reply
  throw new CliError(EXIT.internal, `the demo went wrong: expected a grant, got ${reply.is}`)
}

function held(reply: Reply): Extract<Reply, { is: 'held' }> {
  if (reply.is === 'held') return reply
  throw new CliError(EXIT.internal, `the demo went wrong: expected a refusal, got ${reply.is}`)
}
