// Scripts on the server: by their SHA, with their text when the server has lost them; and what is asked of it once, at the
// first use: whether it is new enough.
import { StoreError } from '../../lease/errors.js'
import type { Command, Wire } from './client.js'
import { codeOf, failure, isNoScript } from './failure.js'
import { type Kept, type Script, type Scripts, scriptsFor } from './scripts.js'

/** The oldest server that Holdfast works with. */
const OLDEST = [6, 2] as const

const IN_MULTI =
  'this client is in the middle of a MULTI, so that nothing is answered before EXEC: give the store another one, client.duplicate()'

const ALONE: { readonly operations?: number; readonly confirm?: boolean; readonly passes?: boolean } = {}

/** What a client in the middle of a MULTI is told instead of an answer. */
function refuseQueued(answer: unknown): unknown {
  if (answer === 'QUEUED') throw new StoreError(IN_MULTI, { outcome: 'unknown' })
  return answer
}

export interface ServerOptions {
  readonly wire: Wire
  /** What stands in the scripts of leases. Default: nothing is kept. */
  readonly kept?: Kept
  /** So many replicas have to confirm a grant or a renewal. */
  readonly replicas: number
  readonly replicasTimeoutMs: number
}

export class Server {
  readonly wire: Wire
  /** Whether messages go to the shard of their key only. Known after `ready`. */
  sharded = false
  scripts: Scripts
  readonly #options: ServerOptions
  #checking: Promise<void> | undefined
  #checked = false

  constructor(options: ServerOptions) {
    this.#options = options
    this.wire = options.wire
    this.scripts = this.#scriptsFor('PUBLISH')
  }

  /** Says at the first use what is missing. Undefined when all has been looked at before. */
  ready(): Promise<void> | undefined {
    const why = this.wire.unusable()
    if (why !== undefined) throw new StoreError(why, { outcome: 'none' })
    if (this.#checked) return undefined
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  /** Runs a script on keys of one slot. No async function, since each verb comes by here. */
  run(
    what: string,
    script: (scripts: Scripts) => Script,
    keys: readonly string[],
    args: readonly string[],
    { operations = 1, confirm = false, passes = false } = ALONE,
  ): Promise<unknown> {
    const failed = (error: unknown): never => {
      throw failure(error, what, operations)
    }
    const evaluate = (): Promise<unknown> => {
      const { text, sha } = script(this.scripts)
      const command: Command = ['evalsha', sha, String(keys.length), ...keys, ...args]
      return this.#send(what, keys[0], command, confirm, passes).then(refuseQueued, (error) => {
        if (!isNoScript(error)) return failed(error)
        const whole: Command = ['eval', text, ...command.slice(2)]
        return this.#send(what, keys[0], whole, confirm).then(refuseQueued, failed)
      })
    }
    try {
      const ready = this.ready()
      return ready === undefined ? evaluate() : ready.then(evaluate).catch(failed)
    } catch (error) {
      return Promise.reject(failure(error, what, operations))
    }
  }

  /** A line of INFO, from each master. */
  async info(section: string, field: string): Promise<string[]> {
    try {
      const ready = this.ready()
      if (ready !== undefined) await ready
      const texts = (await this.wire.masters()).map((send) => send(['info', section]))
      const line = new RegExp(`^${field}:(.*?)\\r?$`, 'm')
      return (await Promise.all(texts)).map((text) => line.exec(String(text))?.[1] ?? '')
    } catch (error) {
      throw failure(error, `a look at ${field}`)
    }
  }

  #send(what: string, key: string | undefined, command: Command, confirm: boolean, passes = false): Promise<unknown> {
    if (!confirm || this.#options.replicas === 0) return this.wire.send(key, command, passes)
    return this.#sendConfirmed(what, key ?? '', command)
  }

  async #sendConfirmed(what: string, key: string, command: Command): Promise<unknown> {
    const { replicas, replicasTimeoutMs } = this.#options
    const [answer, confirmed] = await this.wire.sendAndWait(key, command, replicas, replicasTimeoutMs)
    if (Number(confirmed) >= replicas) return answer
    const how = confirmed instanceof Error ? confirmed.message : `${String(confirmed)} did`
    throw new StoreError(
      `${what} was written, but ${replicas} replicas were to confirm it within ${replicasTimeoutMs} ms, and ${how}: check the replicas, or lower the option replicas`,
      { outcome: 'unknown' },
    )
  }

  #scriptsFor(publish: 'PUBLISH' | 'SPUBLISH'): Scripts {
    return scriptsFor(publish, this.#options.kept ?? { retentionMs: 0, endedRetentionMs: 0 })
  }

  async #check(): Promise<void> {
    let info = ''
    try {
      info = String(await this.wire.send(undefined, ['info', 'server']))
    } catch (error) {
      if (codeOf(error) !== 'NOPERM') throw error // then nothing can be said, and nothing is in the way
    }
    const [major = 0, minor = 0] = (/redis_version:(\S+)/.exec(info)?.[1] ?? '').split('.').map(Number)
    if (major > 0 && (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]))) {
      throw new StoreError(
        `this server is Redis ${major}.${minor}, and Holdfast needs ${OLDEST.join('.')} or newer: older ones have no ACL for channels, and what Holdfast promises was never tried on them`,
        { outcome: 'none', lasting: true },
      )
    }
    this.sharded = this.wire.cluster && major >= 7
    if (this.sharded) this.scripts = this.#scriptsFor('SPUBLISH')
    this.#checked = true
  }
}
