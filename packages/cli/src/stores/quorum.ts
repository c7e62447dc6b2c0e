// `quorum:URL,URL,URL`: leases over several independent stores. A comma inside the URL of a node is written %2C. What has the
// form `name=value` instead of a URL is an option of the quorum, so that it cannot be taken for one of the last node.
import { InvalidArgumentError, type LeaseStore } from 'holdfast'
import { type QuorumStoreOptions, quorumStore } from 'holdfast/quorum'
import { doctorOfQuorum } from '../doctor/quorum.js'
import { CliError, EXIT, usageError } from '../exit.js'
import { quote } from '../text.js'
import { type Connection, type Open, owning } from './scheme.js'
import { schemeOf } from './url.js'

const OPTIONS = ['nodeTimeoutMs', 'waitAfterLossMs'] as const
const EXAMPLE = 'quorum:redis://a,redis://b,redis://c'

export const open: Open = async (url, openOther) => {
  const { urls, options } = readQuorumUrl(url)
  const nodes = await openAll(urls, openOther)
  const close = async () => void (await Promise.allSettled(nodes.map(({ store }) => store.close())))
  let store: LeaseStore
  try {
    store = quorumStore(
      nodes.map((node) => node.store),
      { ...options, closeStores: false },
    )
  } catch (error) {
    await close()
    throw error instanceof InvalidArgumentError ? usageError(`in the quorum: URL ${error.message}`) : error
  }
  const shown = `quorum:${nodes.map((node) => node.shown.replaceAll(',', '%2C')).join(',')}`
  return {
    store: owning(store, close),
    shown,
    ready: () => majorityReady(nodes, shown),
    doctor: () => doctorOfQuorum(nodes, options),
    doctorWhenDown: true,
  }
}

/** The URLs of the nodes, and the options. Throws `CliError` 64. */
export function readQuorumUrl(url: string): { urls: string[]; options: QuorumStoreOptions } {
  const urls: string[] = []
  const options: QuorumStoreOptions = {}
  for (const item of url.slice('quorum:'.length).split(',')) {
    const [, name, value] = /^([a-z]\w*)=(.*)$/isu.exec(item) ?? []
    if (name !== undefined && value !== undefined) readOption(options, name, value)
    else urls.push(readNode(item, urls))
  }
  if (urls.length === 0) throw usageError(`a quorum: URL lists the URLs of its nodes, as in ${EXAMPLE}`)
  return { urls, options }
}

function readOption(options: QuorumStoreOptions, name: string, value: string): void {
  const known = OPTIONS.find((option) => option === name)
  if (known === undefined)
    throw usageError(`a quorum: URL has no option ${quote(name)}; it takes ${OPTIONS.join(' and ')}`)
  if (known in options) throw usageError(`the option ${known} of the quorum: URL is given twice`)
  if (!/^\d{1,15}$/.test(value) || (known === 'nodeTimeoutMs' && Number(value) === 0))
    throw usageError(`the option ${known} of the quorum: URL must be a whole number of milliseconds`)
  options[known] = Number(value)
}

function readNode(item: string, before: readonly string[]): string {
  const which = `node ${before.length}`
  const node = item.replaceAll(/%2c/gi, ',')
  const scheme = schemeOf(node)
  if (scheme === undefined) {
    throw usageError(
      `${which} of the quorum: URL (the first is node 0) is no store URL; it looks like ${EXAMPLE}, and a comma inside the URL of a node is written %2C`,
    )
  }
  if (scheme === 'quorum') throw usageError(`${which} of the quorum: URL is a quorum itself: list its nodes instead`)
  const same = before.indexOf(node)
  if (same >= 0)
    throw usageError(
      `${which} of the quorum: URL is the same as node ${same}: a server that is counted twice makes no majority`,
    )
  return node
}

/** Opens all, or none. */
async function openAll(
  urls: readonly string[],
  openOther: (url: string) => Promise<Connection>,
): Promise<Connection[]> {
  const opened: Connection[] = []
  try {
    for (const [place, url] of urls.entries()) {
      try {
        opened.push(await openOther(url))
      } catch (error) {
        if (!(error instanceof CliError)) throw error
        throw new CliError(error.exitCode, `node ${place} of the quorum: ${error.message}`, { cause: error })
      }
    }
    return opened
  } catch (error) {
    await Promise.allSettled(opened.map(({ store }) => store.close()))
    throw error
  }
}

/** A majority is enough: the others may come later. */
function majorityReady(nodes: readonly Connection[], shown: string): Promise<void> {
  const majority = Math.floor(nodes.length / 2) + 1
  const failures: string[] = []
  let ready = 0
  return new Promise((resolve, reject) => {
    for (const [place, node] of nodes.entries()) {
      Promise.resolve(node.ready?.()).then(
        () => {
          if (++ready === majority) resolve()
        },
        (error: Error) => {
          failures.push(`node ${place}: ${error.message}`)
          if (failures.length <= nodes.length - majority) return
          const why = `no majority (${majority}) of its ${nodes.length} nodes can be reached: ${failures.join('; ')}`
          reject(new CliError(EXIT.unavailable, `cannot reach ${shown}: ${why}`, { cause: error }))
        },
      )
    }
  })
}
