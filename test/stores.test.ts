// What the docs say of each store is what its capabilities say: the tables of "Choosing a store" are written from them, and the README's
// must agree. `npx vitest run test/stores.test.ts -u` writes them anew.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { StoreCapabilities } from '../packages/holdfast/src/store/contract.js'
import { etcdCapabilities } from '../packages/holdfast/src/stores/etcd/index.js'
import { kubernetesCapabilities } from '../packages/holdfast/src/stores/kubernetes/index.js'
import { memoryCapabilities } from '../packages/holdfast/src/stores/memory/index.js'
import { mysqlCapabilities } from '../packages/holdfast/src/stores/mysql/index.js'
import { natsCapabilities } from '../packages/holdfast/src/stores/nats/index.js'
import { postgresCapabilities } from '../packages/holdfast/src/stores/postgres/index.js'
import { quorumCapabilities } from '../packages/holdfast/src/stores/quorum/capabilities.js'
import { redisCapabilities } from '../packages/holdfast/src/stores/redis/index.js'
import { sqliteCapabilities } from '../packages/holdfast/src/stores/sqlite/index.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const page = join(root, 'docs/concepts/choosing-a-store.md')
const START = /<!-- The two tables are written by .* -->\n/
const END = '<!-- End of the tables. -->\n'

interface Row {
  readonly id: string
  readonly title: string
  readonly can: StoreCapabilities
  /** Requests to the store, as its page explains them. */
  readonly costs: string
  /** What has to be run and kept. */
  readonly runs: string
}

const rows: readonly Row[] = [
  { id: 'memory', title: 'memory', can: memoryCapabilities, costs: 'nothing', runs: 'nothing: tests, and one process' },
  {
    id: 'sqlite',
    title: 'SQLite',
    can: sqliteCapabilities,
    costs: 'a transaction on the local disk each',
    runs: 'a file on a local disk',
  },
  {
    id: 'redis',
    title: 'Redis',
    can: redisCapabilities,
    costs: 'one script call each; 128 renewals a call',
    runs: 'a server with `noeviction`',
  },
  {
    id: 'postgres',
    title: 'Postgres',
    can: postgresCapabilities,
    costs: 'one statement each, shared by what is asked at once; 500 renewals a statement',
    runs: 'the database that is there',
  },
  {
    id: 'mysql',
    title: 'MySQL',
    can: mysqlCapabilities,
    costs: 'one call each, shared by what is asked at once; 500 renewals a call',
    runs: 'the database that is there',
  },
  {
    id: 'etcd',
    title: 'etcd',
    can: etcdCapabilities,
    costs:
      'one transaction each, up to 32 in a request, on the disks of a majority; a keep-alive for 1,000 and a read for 128 renewals',
    runs: 'three members with fast disks',
  },
  {
    id: 'nats',
    title: 'NATS',
    can: natsCapabilities,
    costs: 'a read and a write for an acquire; one write for a release or a renewal',
    runs: 'a server with JetStream; one replica',
  },
  {
    id: 'kubernetes',
    title: 'Kubernetes',
    can: kubernetesCapabilities,
    costs: 'one PUT each, of the control plane; a second more for the first grant of a name',
    runs: 'a cluster that is there',
  },
  {
    id: 'quorum',
    title: 'quorum of 3 Redis',
    can: quorumCapabilities([redisCapabilities, redisCapabilities, redisCapabilities]),
    costs: 'what a node costs, at all nodes at once',
    runs: 'an odd number of independent stores',
  },
]

const CLOCKS = {
  server: "the server's",
  machine: "the machine's",
  injected: 'one that you may move',
  observed: "observed: each waiter's own",
}
const TOKENS = {
  counter: 'a counter',
  microseconds: 'µs of the clock, never back',
  revision: "the cluster's revision",
  sequence: "the stream's sequence",
  transitions: 'creation second and `leaseTransitions`',
}

const ms = (value: number) => (value < 1_000 ? `${value} ms` : `${value / 1_000} s`)
const table = (head: readonly string[], lines: readonly (readonly string[])[]) =>
  [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`).join('')
const link = ({ id, title }: Row) => `[${title}](../stores/${id}.md)`

const tables = () => {
  const keeps = rows.map((row) => [
    link(row),
    CLOCKS[row.can.clock],
    TOKENS[row.can.tokens],
    row.can.holdSurvives.join(', '),
    row.can.tokensSurvive.join(', '),
  ])
  const costs = rows.map((row) => [
    link(row),
    row.can.wakeUp,
    row.can.fair ? 'first in, first out' : 'whoever is quickest',
    `${ms(row.can.ttlMsMin)}, in steps of ${ms(row.can.ttlMsGrain)}`,
    row.costs,
    row.runs,
  ])
  return [
    table(['store', 'whose clock', 'tokens come from', 'a hold survives', 'tokens survive'], keeps),
    table(['store', 'wake-up', 'among processes', 'smallest ttl', 'what it costs', 'what has to be run'], costs),
  ].join('\n')
}

it('every store has its row', () => {
  expect(rows.map(({ id }) => id).sort()).toEqual(readdirSync(join(root, 'packages/holdfast/src/stores')).sort())
})

it('"Choosing a store" says what the capabilities say', async () => {
  const text = readFileSync(page, 'utf8')
  const mark = START.exec(text)?.[0] ?? ''
  const [head = '', rest = ''] = text.split(mark)
  const tail = rest.slice(rest.indexOf(END))
  await expect(`${head}${mark}\n${tables()}\n${tail}`).toMatchFileSnapshot(page)
})

it('the table of the README agrees with them', () => {
  const lines = readFileSync(join(root, 'README.md'), 'utf8').split('\n')
  for (const { id, can } of rows) {
    const line = lines.find((one) => one.startsWith('| [') && one.includes(`(docs/stores/${id}.md)`))
    const cells = line?.split('|').map((cell) => cell.trim()) ?? []
    const [, , , tokens = '', , , , fair = '', survives = '', decides = ''] = cells
    const said = {
      id,
      fair: fair === 'yes',
      storeRestart: /restart|every process/.test(survives),
      failOver: /fail-over|minority/.test(survives),
      clock: /^each waiter/.test(decides)
        ? 'observed'
        : /machine/.test(decides)
          ? 'machine'
          : /you may move/.test(decides)
            ? 'injected'
            : 'server',
      tokensFailOver: /fail-over|majority/.test(tokens),
      tokensDataLoss: /loss of (all data|the file)/.test(tokens),
    }
    expect(said).toEqual({
      id,
      fair: can.fair,
      storeRestart: can.holdSurvives.includes('store restart'),
      failOver: can.holdSurvives.includes('fail-over'),
      clock: can.clock,
      tokensFailOver: can.tokensSurvive.includes('fail-over'),
      tokensDataLoss: can.tokensSurvive.includes('data loss'),
    })
  }
})
