import { InvalidOptionError } from '@txbox/core'
import { oneLine, type OptionChecker } from '@txbox/core/internal'

const MOST_SERVERS = 100
const URL_CHARACTERS = 8192
const DEFAULT_PORT = 4222
const NAMED_SERVERS = 3

/** A name, an IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])$/i

const EXPECTED = "URLs such as 'nats://host:4222' or 'tls://host:4222'"

/** How a client logs in. */
export type Login =
  | { readonly user: string; readonly password: string | undefined }
  | { readonly token: string }
  | { readonly credentialsFile: string }

export interface ServerAddresses {
  /** Each as `host:port`. */
  readonly addresses: readonly string[]
  readonly areTls: boolean
  /** The login in the URLs. */
  readonly login: Login | undefined
  /** The servers in error messages, without user and password. */
  readonly name: string
}

interface ServerUrl {
  readonly address: string
  readonly isTls: boolean
  readonly login: Login | undefined
}

/** Error messages never show a URL, which may contain a password. */
export function serverAddresses(check: OptionChecker, servers: unknown): ServerAddresses {
  const texts: unknown = typeof servers === 'string' ? [servers] : servers
  if (!Array.isArray(texts) || texts.length === 0 || texts.length > MOST_SERVERS) {
    throw check.wrong('servers', `a URL such as 'nats://host:4222', or a list of 1 to ${MOST_SERVERS}`)
  }
  const urls = texts.map((text) => serverUrl(check, text))
  const [first] = urls as [ServerUrl, ...ServerUrl[]]
  if (urls.some(({ isTls }) => isTls !== first.isTls)) {
    throw check.wrong('servers', "either all 'nats://…' or all 'tls://…'")
  }
  const logins = new Set(urls.flatMap(({ login }) => (login === undefined ? [] : [JSON.stringify(login)])))
  if (logins.size > 1) throw check.wrong('servers', 'URLs with the same login')
  const addresses = urls.map(({ address }) => address)
  const named = addresses.slice(0, NAMED_SERVERS).join(', ')
  return {
    addresses,
    areTls: first.isTls,
    login: urls.find(({ login }) => login !== undefined)?.login,
    name:
      addresses.length > NAMED_SERVERS ? `${named} and ${addresses.length - NAMED_SERVERS} others` : named,
  }
}

function serverUrl(check: OptionChecker, text: unknown): ServerUrl {
  if (typeof text !== 'string' || text.length > URL_CHARACTERS || !URL.canParse(text)) {
    throw check.wrong('servers', EXPECTED)
  }
  const { protocol, hostname, port, pathname, search, hash, username, password } = new URL(text)
  if (protocol !== 'nats:' && protocol !== 'tls:') {
    throw new InvalidOptionError(
      `${check.where}: the option 'servers' must have ${EXPECTED}, not ${oneLine(protocol, 40)}//….`,
    )
  }
  // An unencoded '/', '?' or '#' of a password ends the host: the rest of the password would be taken for a path.
  if (!HOST.test(hostname) || !['', '/'].includes(pathname) || search !== '' || hash !== '') {
    throw new InvalidOptionError(
      `${check.where}: the option 'servers' must have ${EXPECTED}, with nothing behind the port, and special characters of a password ` +
        "percent-encoded: '/' as %2F, '?' as %3F, '#' as %23, and '@' as %40.",
    )
  }
  return {
    address: `${hostname}:${port === '' ? DEFAULT_PORT : port}`,
    isTls: protocol === 'tls:',
    login: loginIn(decoded(username), decoded(password)),
  }
}

function loginIn(user: string, password: string): Login | undefined {
  if (user === '') return undefined
  return password === '' ? { token: user } : { user, password }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
