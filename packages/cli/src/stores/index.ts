// The kinds of stores that the command line knows, one file each. A new one is a file that exports `open`, and a line here.
import { usageError } from '../exit.js'
import type { Connection, Scheme } from './scheme.js'
import { schemeOf } from './url.js'

export const SCHEMES: readonly Scheme[] = [
  { names: ['sqlite'], forms: ['sqlite:PATH'], load: () => import('./sqlite.js') },
  {
    names: ['redis', 'rediss', 'redis+sentinel', 'rediss+sentinel', 'redis+cluster', 'rediss+cluster'],
    forms: [
      'redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss:// with TLS',
      'redis+sentinel://HOST,HOST,HOST/NAME',
      'redis+cluster://HOST,HOST,HOST',
    ],
    load: () => import('./redis.js'),
  },
  {
    names: ['postgres', 'postgresql'],
    forms: ['postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE'],
    load: () => import('./postgres.js'),
  },
  {
    names: ['etcd', 'etcds'],
    forms: ['etcd://[USER:PASSWORD@]HOST[:PORT],HOST,HOST, etcds:// with TLS'],
    load: () => import('./etcd.js'),
  },
  {
    names: ['mysql', 'mariadb'],
    forms: ['mysql://[USER:PASSWORD@]HOST[:PORT]/DATABASE'],
    load: () => import('./mysql.js'),
  },
  {
    names: ['nats'],
    forms: ['nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT],HOST,HOST[/BUCKET]'],
    load: () => import('./nats.js'),
  },
  {
    names: ['kubernetes'],
    forms: ['kubernetes:NAMESPACE'],
    load: () => import('./kubernetes.js'),
  },
  { names: ['quorum'], forms: ['quorum:URL,URL,URL'], load: () => import('./quorum.js') },
]

/** Makes ready the store that a URL names. Throws `CliError` 64 for a URL that cannot be right. */
export async function openUrl(url: string): Promise<Connection> {
  const name = schemeOf(url)
  if (name === undefined) {
    const hint = looksLikePath(url) ? `; for a SQLite file write sqlite:${url}` : ''
    throw usageError(`the store must be named by a URL such as sqlite:./leases.db${hint}`)
  }
  const scheme = SCHEMES.find(({ names }) => names.includes(name))
  if (scheme !== undefined) return (await scheme.load()).open(url, openUrl)
  const known = SCHEMES.flatMap(({ names }) => names.map((one) => `${one}:`)).join(', ')
  // What stands before a colon may as well be the user in `user:password@host`.
  throw usageError(
    url.slice(name.length).startsWith('://')
      ? `unknown store scheme ${name}:; this version has ${known}`
      : `unknown store scheme; this version has ${known}`,
  )
}

/** Whether it may be repeated in a message: a path, and surely nothing that carries a password. */
const looksLikePath = (text: string) => /^[\w./~ \\:-]+$/.test(text) && !text.includes('@')
