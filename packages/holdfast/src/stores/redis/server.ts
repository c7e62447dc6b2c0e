// Scripts on the server: by their SHA, with their text when the server has lost them; and what is asked of it once, at the
// first use: whether it is new enough.
import { StoreError } from '../../lease/errors.js'
import type { Command, Wire } from './client.js'
import { codeOf, failure, isNoScript } from './failure.js'
import { type Script, type Scripts, scriptsFor } from './scripts.js'

/** The oldest server that Holdfast works with. */
const OLDEST = [6, 2] as const

export interface ServerOptions {
  readonly wire: Wire
  /** What the scripts are told of: the retention, and how long withdrawn claims are kept, in ms. */
  readonly common: readonly string[]
  /** So many replicas have to confirm a grant or a renewal. */
  readonly replicas: number
  readonly replicasTimeoutMs: number
}

export class Server {
  readonly wire: Wire
  /** Whether messages go to the shard of their key only. Known after `ready`. */
  sharded = false
  scripts: Scripts = scriptsFor('PUBLISH')
  readonly #options: ServerOptions
  #checking: Promise<void> | undefined
  #checked = false

  constructor(options: ServerOptions) {
    this.#options = options
    this.wire = options.wire
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

  /** Runs a script on keys of one slot. */
  async run(
    what: string,
    script: (scripts: Scripts) => Script,
    keys: readonly string[],
    args: readonly string[],
    { operations = 1, confirm = false } = {},
  ): Promise<unknown> {
    try {
      const ready = this.ready()
      if (ready !== undefined) await ready
      const { text, sha } = script(this.scripts)
      const rest = [String(keys.length), ...keys, ...this.#options.common, ...args]
      try {
        return await this.#send(what, keys[0] ?? '', ['evalsha', sha, ...rest], confirm)
      } catch (error) {
        if (!isNoScript(error)) throw error
        return await this.#send(what, keys[0] ?? '', ['eval', text, ...rest], confirm)
      }
    } catch (error) {
      throw failure(error, what, operations)
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

  async #send(what: string, key: string, command: Command, confirm: boolean): Promise<unknown> {
    const { replicas, replicasTimeoutMs } = this.#options
    if (replicas === 0 || !confirm) return await this.wire.send(key, command)
    const [answer, confirmed] = await this.wire.sendAndWait(key, command, replicas, replicasTimeoutMs)
    if (Number(confirmed) >= replicas) return answer
    const how = confirmed instanceof Error ? confirmed.message : `${String(confirmed)} did`
    throw new StoreError(
      `${what} was written, but ${replicas} replicas were to confirm it within ${replicasTimeoutMs} ms, and ${how}: check the replicas, or lower the option replicas`,
      { outcome: 'unknown' },
    )
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
        { outcome: 'none' },
      )
    }
    this.sharded = this.wire.cluster && major >= 7
    if (this.sharded) this.scripts = scriptsFor('SPUBLISH')
    this.#checked = true
  }
}
