import { UsageError } from '../failure.ts'

/** The parts of `--publisher`. Texts are decoded, and variables of the environment have their values. */
export interface PublisherUrl {
  /** In lower case and without the colon, such as `kafka+ssl`. */
  readonly scheme: string
  readonly user: string | undefined
  readonly password: string | undefined
  /** Each as `host` or `host:port`. Empty if the URL has no authority. */
  readonly hosts: readonly string[]
  /** As it is written, such as `/vhost` or `./publisher.mjs`. */
  readonly path: string
  readonly query: ReadonlyMap<string, string>
  /** The whole URL, with variables in percent-encoding. */
  readonly href: string
}

const PARTS = /^([a-z][a-z\d+.-]*):(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?$/i
/** Schemes whose path and query this command passes on as they are. */
const URLS_OF_OTHERS = /^(https?|module)$/i
const VARIABLE = /\$\{([A-Za-z_]\w*)\}/g
/** A name or an address; an IPv6 address stands in brackets. */
const HOST = /^(?:\[[\da-f:.]+\]|[^\s:[\]]+)(?::\d{1,5})?$/i

/**
 * Splits the URL of `--publisher`. `${NAME}` is the variable NAME of the environment, as it is; everything else is in percent-encoding.
 *
 * @throws {UsageError} which never shows the URL, because it may contain a password.
 */
export function publisherUrl(given: string, environment: NodeJS.ProcessEnv, expected: string): PublisherUrl {
  const [, name] = /^\$\{([A-Za-z_]\w*)\}$/.exec(given) ?? []
  const text = name === undefined ? given : variable(name, environment)
  const [, scheme, authority, path = '', query] = PARTS.exec(text) ?? []
  if (scheme === undefined) throw new UsageError(`--publisher is not a URL; expected ${expected}`)
  // The rest of a password with an unencoded '/' or '?' would be taken for a path or a query, and be shown.
  if (!URLS_OF_OTHERS.test(scheme) && `${path}${query ?? ''}`.includes('@')) {
    throw new UsageError(
      "--publisher has an @ behind its host; write special characters in percent-encoding: '/' as %2F, '?' as %3F, '#' as %23, '@' as %40",
    )
  }
  const decoded = (part: string): string => withVariables(part, environment, unescaped, (value) => value)
  const login = authority?.slice(0, Math.max(0, authority.lastIndexOf('@')))
  const colon = login?.indexOf(':') ?? -1
  return {
    scheme: scheme.toLowerCase(),
    user:
      login === undefined || login === '' ? undefined : decoded(colon < 0 ? login : login.slice(0, colon)),
    password: login === undefined || colon < 0 ? undefined : decoded(login.slice(colon + 1)),
    hosts: hostsOf(decoded(authority?.slice(authority.lastIndexOf('@') + 1) ?? '')),
    path: decoded(path),
    query: queryOf(query, decoded),
    href: withVariables(text, environment, (part) => part, encodeURIComponent),
  }
}

function hostsOf(hosts: string): readonly string[] {
  if (hosts === '') return []
  const list = hosts.split(',')
  if (list.every((host) => HOST.test(host))) return list
  throw new UsageError(
    "--publisher has a host that cannot be read; expected 'host' or 'host:port', several by commas",
  )
}

function queryOf(query: string | undefined, decoded: (part: string) => string): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  for (const pair of (query ?? '').split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals))
    if (values.has(name)) throw new UsageError(`--publisher has ?${shown(name)}= twice`)
    values.set(name, equals < 0 ? '' : decoded(pair.slice(equals + 1)))
  }
  return values
}

/** The name of a parameter for an error: a part of a password that was not encoded must not be shown. */
export function shown(name: string): string {
  return /^[A-Za-z]\w{0,39}$/.test(name) ? name : '…'
}

function withVariables(
  text: string,
  environment: NodeJS.ProcessEnv,
  literal: (part: string) => string,
  substituted: (value: string) => string,
): string {
  let result = ''
  let from = 0
  for (const found of text.matchAll(VARIABLE)) {
    result += literal(text.slice(from, found.index)) + substituted(variable(found[1]!, environment))
    from = found.index + found[0].length
  }
  return result + literal(text.slice(from))
}

function variable(name: string, environment: NodeJS.ProcessEnv): string {
  const value = environment[name]
  if (value !== undefined) return value
  throw new UsageError(`--publisher names the variable ${name}, which the environment does not have`)
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new UsageError('--publisher has a % that begins no percent-encoding; write %25 for %')
  }
}
