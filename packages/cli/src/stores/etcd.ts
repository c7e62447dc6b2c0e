// `etcd:` and `etcds:`: leases in an etcd cluster, through its JSON gateway.
import { etcdStore } from 'holdfast/etcd'
import { askEtcd, doctorOfEtcd } from '../doctor/etcd.js'
import { CliError, EXIT, usageError } from '../exit.js'
import type { Open } from './scheme.js'
import { readServerUrl, shownHosts, wholeParameter } from './url.js'

const PORT = 2_379

export const open: Open = (url) => {
  const given = readServerUrl(url, {
    example: `etcd://user:password@host:${PORT},host:${PORT}`,
    defaultPort: PORT,
    manyHosts: true,
    parameters: ['prefix', 'endedRetentionMs'],
  })
  const { scheme, user, password, hosts, path, query } = given
  if (path.length > 0) throw usageError(`an ${scheme}: URL has no path: name what keys begin with as ?prefix=…`)
  if ((user === undefined) !== (password === undefined)) {
    throw usageError(`an ${scheme}: URL names both user and password, or none`)
  }
  const http = scheme === 'etcds' ? 'https' : 'http'
  const endpoints = hosts.map((host) => `${http}://${shownHosts([host])}`)
  const endedRetentionMs = wholeParameter(given, 'endedRetentionMs')
  const store = etcdStore({
    endpoints,
    ...(user === undefined || password === undefined ? {} : { user, password }),
    ...(query.prefix === undefined ? {} : { prefix: query.prefix }),
    ...(endedRetentionMs === undefined ? {} : { endedRetentionMs }),
  })
  const shown = `${scheme}://${shownHosts(hosts)}`
  let ready: Promise<void> | undefined
  return {
    store,
    shown,
    ready() {
      ready ??= anyOf(endpoints, shown)
      return ready
    },
    doctor: () => doctorOfEtcd(endpoints, store),
  }
}

/** One member that answers is enough; rights and leader are the store's affair. */
async function anyOf(endpoints: readonly string[], shown: string): Promise<void> {
  try {
    await Promise.any(endpoints.map((endpoint) => askEtcd(endpoint, '/v3/maintenance/status', {})))
  } catch (error) {
    const [first] = error instanceof AggregateError ? error.errors : [error]
    const { cause } = first as { cause?: { code?: string; message?: string } }
    const why = cause?.code ?? cause?.message ?? (first instanceof Error ? first.message : String(first))
    throw new CliError(EXIT.unavailable, `cannot reach ${shown}: ${why}`, { cause: error })
  }
}
