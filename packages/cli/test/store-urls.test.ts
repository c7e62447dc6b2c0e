// URLs of Redis and of quorums: what they mean, and what is said of those that cannot be right. No password is ever repeated.
import { describe, expect, it } from 'vitest'
import { CliError } from '../src/exit.js'
import { openUrl } from '../src/stores/index.js'
import { readQuorumUrl } from '../src/stores/quorum.js'
import { readRedisUrl } from '../src/stores/redis.js'

const server = (host: string, port = 6_379) => ({ is: 'server', host: { host, port } })

describe('a Redis URL', () => {
  it.each<[string, object, string]>([
    ['redis://h', { db: 0, user: undefined, password: undefined, tls: undefined, at: server('h') }, 'redis://h:6379/0'],
    ['REDIS://h:1/', { db: 0, at: server('h', 1) }, 'redis://h:1/0'],
    ['redis://h/7', { db: 7, at: server('h') }, 'redis://h:6379/7'],
    ['redis://u:p@h', { user: 'u', password: 'p' }, 'redis://h:6379/0'],
    ['redis://:p@h', { user: undefined, password: 'p' }, 'redis://h:6379/0'],
    ['redis://u%3A%40:p%2F%3F%23%25%40%2C%C3%BC@h', { user: 'u:@', password: 'p/?#%@,ü' }, 'redis://h:6379/0'],
    ['redis://u:a:b@c@h', { user: 'u', password: 'a:b@c' }, 'redis://h:6379/0'],
    ['redis://[::1]:70', { at: server('::1', 70) }, 'redis://[::1]:70/0'],
    [
      'redis://?socket=/run/r%20s.sock',
      { at: { is: 'socket', path: '/run/r s.sock' } },
      'redis:///0?socket=/run/r s.sock',
    ],
    ['redis://:p@/2?socket=/s', { db: 2, password: 'p', at: { is: 'socket', path: '/s' } }, 'redis:///2?socket=/s'],
    ['rediss://h', { tls: {}, at: server('h') }, 'rediss://h:6379/0'],
    [
      'redis+sentinel://u:p@a,b:2/main/3?sentinelPassword=s%26',
      {
        db: 3,
        user: 'u',
        password: 'p',
        at: {
          is: 'sentinel',
          hosts: [
            { host: 'a', port: 26_379 },
            { host: 'b', port: 2 },
          ],
          name: 'main',
          user: undefined,
          password: 's&',
        },
      },
      'redis+sentinel://a:26379,b:2/main/3',
    ],
    ['rediss+sentinel://a/x', { tls: {}, db: 0 }, 'rediss+sentinel://a:26379/x/0'],
    [
      'redis+cluster://a,b:2/',
      {
        at: {
          is: 'cluster',
          hosts: [
            { host: 'a', port: 6_379 },
            { host: 'b', port: 2 },
          ],
        },
      },
      'redis+cluster://a:6379,b:2',
    ],
  ])('%s', (url, target, shown) => {
    const read = readRedisUrl(url)
    expect(read.target).toMatchObject(target)
    expect(read.shown).toBe(shown)
  })

  it('has options of the store', () => {
    const { options } = readRedisUrl(
      'redis://h?prefix=%7Bjobs%7D%3A&replicas=1&replicasTimeoutMs=50&retentionMs=0&endedRetentionMs=9',
    )
    expect(options).toEqual({
      prefix: '{jobs}:',
      replicas: 1,
      replicasTimeoutMs: 50,
      retentionMs: 0,
      endedRetentionMs: 9,
    })
    expect(readRedisUrl('redis+cluster://h?prefix=a+b').options).toEqual({ prefix: 'a+b' })
  })
})

describe('a quorum URL', () => {
  it.each([
    ['quorum:redis://a,redis://b', ['redis://a', 'redis://b'], {}],
    [
      'quorum:redis+sentinel://a%2Cb/x,waitAfterLossMs=30000,sqlite:/y%2cz,nodeTimeoutMs=5',
      ['redis+sentinel://a,b/x', 'sqlite:/y,z'],
      { waitAfterLossMs: 30_000, nodeTimeoutMs: 5 },
    ],
    ['quorum:redis://:p%252C@a?prefix=x', ['redis://:p%252C@a?prefix=x'], {}],
  ])('%s', (url, urls, options) => {
    expect(readQuorumUrl(url)).toEqual({ urls, options })
  })
})

describe('is refused with 64, with the part and what to do:', () => {
  it.each<[string, RegExp]>([
    ['redis:secret', /^after redis: two slashes are missing; a redis: URL looks like redis:\/\//],
    ['redis://', /^the host is missing/],
    ['redis://:secret@', /^the host is missing/],
    ['redis://u:secret@h:x', /^the port of the host must be a number from 1 to 65535 .*%2F/],
    ['redis://u:secret@h:0', /^the port of the host/],
    ['redis://u:secret@h:65536', /^the port of the host/],
    ['redis://u:secret/hidden@h', /"@" stands after the first "\/" or "\?": write .* as %2F, %3F and %40/],
    ['redis://u:secret?hidden@h', /"@" stands after/],
    ['redis://u:secret#hidden@h', /has no "#": write one in a password or a name as %23/],
    ['redis://u:sec%zzret@h', /^the password in the redis: URL has a "%" .* write a plain "%" as %25/],
    ['redis://u%:secret@h', /^the user name in the redis: URL has a "%"/],
    ['redis://u:secret%00@h', /^the password in the redis: URL has a NUL/],
    ['redis://secret@h', /has a user name and no password: write user:password@, or :password@ alone/],
    ['redis://u:secret@a b', /^the host is no name and no address/],
    ['redis://u:secret@::1', /^the host is no name and no address: an IPv6 address stands in brackets/],
    ['redis://u:secret@a,b', /^only one host can be named/],
    ['redis://u:secret@h/x', /is the number of a database, such as \/0$/],
    ['redis://u:secret@h/-1', /is the number of a database/],
    ['redis://u:secret@h/1/2', /is the number of a database/],
    ['redis://u:secret@h?prefx=x', /^a redis: URL has no parameter "prefx"; it takes prefix, /],
    ['redis://u:secret@h?prefix', /^the parameter prefix of the redis: URL has no value/],
    ['redis://u:secret@h?prefix=', /^the parameter prefix of the redis: URL must have 1 to 128 bytes/],
    [`redis://u:secret@h?prefix=${'ü'.repeat(65)}`, /must have 1 to 128 bytes/],
    ['redis://u:secret@h?prefix=a&prefix=b', /^the parameter prefix of the redis: URL is given twice/],
    ['redis://u:secret@h?prefix=%zz', /^the parameter prefix of the redis: URL has a "%"/],
    ['redis://u:secret@h?replicas=-1', /^the parameter replicas of the redis: URL must be a whole number, 0 or more/],
    ['redis://u:secret@h?replicas=1.5', /^the parameter replicas/],
    ['redis://u:secret@h?replicasTimeoutMs=0', /must be a whole number, 1 or more/],
    ['redis://u:secret@h?ca=/x', /has no parameter "ca"/],
    ['redis://u:secret@h?socket=/x', /names either a host or a socket/],
    ['redis://:secret@?socket=x', /^the parameter socket of the redis: URL must be an absolute path/],
    ['rediss://:secret@?socket=/x', /has no TLS/],
    [
      'rediss://u:secret@h?ca=/no/such/file',
      /^the parameter ca of the rediss: URL must name a file that can be read \(ENOENT\)/,
    ],
    ['rediss://u:secret@h?cert=/x', /^the parameters cert and key of the rediss: URL go together/],
    ['redis+sentinel://u:secret@h', /^after the sentinels the name under which they know the primary is missing/],
    ['redis+sentinel://u:secret@a,/x', /^host 2 in the list is missing/],
    ['redis+sentinel://u:secret@a,b:x/x', /^the port of host 2 in the list must be a number/],
    ['redis+sentinel://u:secret@h/x/y', /is the number of a database/],
    ['redis+sentinel://u:secret@h/x?sentinelUser=u', /needs sentinelPassword beside it/],
    ['redis+cluster://u:secret@a/1', /^a Cluster has one database/],
    ['redis+cluster://u:secret@a?socket=/x', /has no parameter "socket"/],
    ['redis+other://u:secret@a', /^unknown store scheme redis\+other:/],
    ['quorum:', /is no store URL; it looks like quorum:redis:\/\/a,redis:\/\/b/],
    ['quorum:waitAfterLossMs=5', /^a quorum: URL lists the URLs of its nodes/],
    [
      'quorum:redis://:secret@a,b',
      /^node 1 of the quorum: URL .* is no store URL; .* a comma inside the URL of a node is written %2C/,
    ],
    ['quorum:redis://:secret@a,redis://:secret@a', /^node 1 of the quorum: URL is the same as node 0/],
    ['quorum:redis://:secret@a,quorum:redis://b', /^node 1 of the quorum: URL is a quorum itself/],
    ['quorum:redis://:secret@a,redis://b:x', /^node 1 of the quorum: the port of the host/],
    [
      'quorum:redis://:secret@a,nodeTimeout=5',
      /^a quorum: URL has no option "nodeTimeout"; it takes nodeTimeoutMs and waitAfterLossMs/,
    ],
    ['quorum:redis://:secret@a,nodeTimeoutMs=0', /^the option nodeTimeoutMs of the quorum: URL must be a whole number/],
    ['quorum:redis://:secret@a,waitAfterLossMs=5s', /^the option waitAfterLossMs/],
    ['quorum:redis://:secret@a,nodeTimeoutMs=5,nodeTimeoutMs=6', /is given twice/],
    ['quorum:redis://:secret@a,sqlite:/tmp/holdfast-no-such.db,waitAfterLossMs=5', /^in the quorum: URL .*keptForMs/],
  ])('%s', async (url, message) => {
    const error = await openUrl(url).then(
      ({ store }) => store.close(),
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(CliError)
    expect(error).toMatchObject({ exitCode: 64, message: expect.stringMatching(message) })
    expect((error as Error).message).not.toMatch(/secret|sec%|hidden/)
  })
})
