// Store URLs that name servers: `scheme://[user[:password]@]host[:port][,host[:port]…][/path][?name=value&…]`. Read by hand: the
// platform's parser knows no lists of hosts, and repeats in its errors what it was given. Here no message repeats anything that
// may be a part of a password, which is nearly everything when a special character in one was not written as %XX.
import { type CliError, usageError } from '../exit.js'
import { quote } from '../text.js'

export interface Host {
  readonly host: string
  readonly port: number
}

/** What stands in a URL, decoded. */
export interface ServerUrl {
  readonly scheme: string
  readonly user: string | undefined
  readonly password: string | undefined
  /** Empty when the URL names no host, as in `scheme:///path`. */
  readonly hosts: readonly Host[]
  /** The parts of the path, decoded: `/a/b` has two, none when there is no path. */
  readonly path: readonly string[]
  /** The parameters that were given. */
  readonly query: Readonly<Record<string, string>>
}

/** What URLs of a scheme may have. */
export interface ServerUrlRules {
  /** How one looks, for messages. */
  readonly example: string
  readonly defaultPort: number
  /** Whether several hosts may be named. */
  readonly manyHosts?: boolean
  /** Whether the host may be left out. */
  readonly hostMayBeMissing?: boolean
  /** The parameters that are known. */
  readonly parameters: readonly string[]
}

/** The scheme with which a text begins, in lower case. A letter and a colon are a drive of Windows. */
export function schemeOf(url: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  return scheme === undefined || /^[a-z]:[\\/]/i.test(url) ? undefined : scheme
}

/** Takes a URL of a server to pieces, and checks each. Throws `CliError` 64 that names the piece and what to do. */
export function readServerUrl(url: string, rules: ServerUrlRules): ServerUrl {
  const scheme = schemeOf(url) ?? ''
  const wrong = (what: string): CliError => usageError(`${what}; a ${scheme}: URL looks like ${rules.example}`)
  const [, rest] = /^[^:]*:\/\/(.*)$/su.exec(url) ?? []
  if (rest === undefined) throw wrong(`after ${scheme}: two slashes are missing`)
  if (rest.includes('#')) throw wrong(`a ${scheme}: URL has no "#": write one in a password or a name as %23`)

  const [, authority = '', path = '', question] = /^([^/?]*)(\/[^?]*)?(?:\?(.*))?$/su.exec(rest) ?? []
  if (path.includes('@') || question?.includes('@')) {
    throw wrong(
      `in a ${scheme}: URL an "@" stands after the first "/" or "?": write "/", "?" and "@" in a user name or a password as %2F, %3F and %40`,
    )
  }
  const at = authority.lastIndexOf('@')
  const [user, password] = at < 0 ? [] : credentials(authority.slice(0, at), scheme)
  const hosts = readHosts(authority.slice(at + 1), rules, wrong)
  return {
    scheme,
    user,
    password,
    hosts,
    path: path
      .split('/')
      .slice(1)
      .filter((part, place, parts) => part !== '' || place < parts.length - 1)
      .map((part) => decoded(part, `the path of the ${scheme}: URL`)),
    query: readQuery(question, scheme, rules.parameters),
  }
}

function credentials(text: string, scheme: string): [user: string | undefined, password: string | undefined] {
  const colon = text.indexOf(':')
  const part = (raw: string, what: string) =>
    raw === '' ? undefined : decoded(raw, `the ${what} in the ${scheme}: URL`)
  if (colon < 0) return [part(text, 'user name'), undefined]
  return [part(text.slice(0, colon), 'user name'), part(text.slice(colon + 1), 'password')]
}

function readHosts(text: string, rules: ServerUrlRules, wrong: (what: string) => CliError): Host[] {
  if (text === '') {
    if (rules.hostMayBeMissing) return []
    throw wrong('the host is missing')
  }
  const texts = text.split(',')
  if (texts.length > 1 && !rules.manyHosts) throw wrong('only one host can be named')
  return texts.map((one, place) => {
    const which = texts.length > 1 ? `host ${place + 1} in the list` : 'the host'
    if (one === '') throw wrong(`${which} is missing`)
    const [, inBrackets, plain, portText] =
      /^(?:\[([0-9a-f:.]+(?:%25[\w.]+)?)\]|([\w.-]+))(?::(.*))?$/isu.exec(one) ?? []
    const host = inBrackets?.replace('%25', '%') ?? plain
    if (host === undefined) {
      throw wrong(
        `${which} is no name and no address: an IPv6 address stands in brackets, and special characters in a user name or a password are written as %XX ("@" as %40, "/" as %2F, ":" as %3A)`,
      )
    }
    const port = portText === undefined ? rules.defaultPort : Number(portText)
    if (portText !== undefined && !(/^\d{1,5}$/.test(portText) && port >= 1 && port <= 65_535)) {
      throw wrong(
        `the port of ${which} must be a number from 1 to 65535 (if that is a part of a password: write its "/", "?" and "@" as %2F, %3F and %40)`,
      )
    }
    return { host, port }
  })
}

/** Reads `name=value&…`. Only known names, each once. Throws `CliError` 64. */
export function readQuery(
  text: string | undefined,
  scheme: string,
  parameters: readonly string[],
): Record<string, string> {
  const query: Record<string, string> = {}
  if (text === undefined || text === '') return query
  for (const part of text.split('&')) {
    const equals = part.indexOf('=')
    const name = decoded(equals < 0 ? part : part.slice(0, equals), `the query of the ${scheme}: URL`)
    if (!parameters.includes(name)) {
      const known = parameters.length === 0 ? 'it takes none' : `it takes ${parameters.join(', ')}`
      throw usageError(`a ${scheme}: URL has no parameter ${quote(name)}; ${known}`)
    }
    if (equals < 0) throw usageError(`the parameter ${name} of the ${scheme}: URL has no value: write ${name}=…`)
    if (name in query) throw usageError(`the parameter ${name} of the ${scheme}: URL is given twice`)
    query[name] = decoded(part.slice(equals + 1), `the parameter ${name} of the ${scheme}: URL`)
  }
  return query
}

/** A parameter that is a whole number. */
export function wholeParameter(
  { scheme, query }: Pick<ServerUrl, 'scheme' | 'query'>,
  name: string,
  least = 0,
): number | undefined {
  const text = query[name]
  if (text === undefined) return undefined
  const value = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value
  throw usageError(`the parameter ${name} of the ${scheme}: URL must be a whole number, ${least} or more`)
}

/** `%XX` as the characters that it stands for. */
export function decoded(text: string, what: string): string {
  let value: string
  try {
    value = decodeURIComponent(text)
  } catch {
    throw usageError(`${what} has a "%" that is followed by no character code; write a plain "%" as %25`)
  }
  if (value.includes('\0')) throw usageError(`${what} has a NUL character, which cannot be`)
  return value
}

/** Hosts as they stand in a URL. */
export const shownHosts = (hosts: readonly Host[]): string =>
  hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',')
