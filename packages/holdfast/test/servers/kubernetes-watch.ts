// Watches at the stand-in: lines of JSON in chunks, from a version or from what is there, with bookmarks, until they end.
import type { ServerResponse } from 'node:http'
import { type Lease, Refusal } from './kubernetes-lease.js'
import type { Change, Objects } from './kubernetes-objects.js'

/** So long before its end a watch tells the version. */
const BOOKMARK_MS = 2_000

export interface WatchParts {
  readonly objects: Objects
  readonly namespace: string
  readonly query: URLSearchParams
  readonly response: ServerResponse
  readonly selects: (lease: Lease) => boolean
  readonly isSilent: () => boolean
  onEnd(): void
}

export function serveWatch(parts: WatchParts): void {
  const { objects, namespace, query, response, selects, isSilent, onEnd } = parts
  const since = query.get('resourceVersion') ?? ''
  if (since !== '' && !/^\d+$/.test(since)) throw new Refusal(500, '', `invalid resource version "${since}"`)
  response.writeHead(200, { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' })
  response.flushHeaders()
  const say = (type: string, object: object) => {
    if (!isSilent()) response.write(`${JSON.stringify({ type, object })}\n`)
  }
  const tell = ({ type, lease, version }: Change) => {
    if (lease.metadata.namespace === namespace && selects(lease) && version > Number(since)) say(type, lease)
  }
  const bookmark = (annotations?: object) =>
    say('BOOKMARK', {
      kind: 'Lease',
      apiVersion: 'coordination.k8s.io/v1',
      metadata: {
        resourceVersion: String(objects.version),
        creationTimestamp: null,
        ...(annotations === undefined ? {} : { annotations }),
      },
      spec: {},
    })
  if (since === '' || since === '0') for (const lease of objects.list(namespace).filter(selects)) say('ADDED', lease)
  else if (Number(since) < objects.compacted) {
    say('ERROR', new Refusal(410, 'Expired', `too old resource version: ${since} (${objects.compacted})`).status)
    response.end()
    onEnd()
    return
  } else objects.changes.forEach(tell)
  if (query.get('sendInitialEvents') === 'true') bookmark({ 'k8s.io/initial-events-end': 'true' })
  objects.listeners.add(tell)
  const endMs = Number(query.get('timeoutSeconds') ?? 0) * 1_000
  const timers =
    endMs > 0
      ? [
          setTimeout(() => response.end(), endMs),
          ...(query.get('allowWatchBookmarks') === 'true'
            ? [setTimeout(() => bookmark(), Math.max(0, endMs - BOOKMARK_MS))]
            : []),
        ]
      : []
  response.on('close', () => {
    for (const timer of timers) clearTimeout(timer)
    objects.listeners.delete(tell)
    onEnd()
  })
}
