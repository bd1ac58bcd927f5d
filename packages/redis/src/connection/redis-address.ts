import { InvalidOptionError } from '@txbox/core'
import { oneLine, type OptionChecker } from '@txbox/core/internal'

const URL_CHARACTERS = 8192
const DEFAULT_PORT = 6379

/** A server, and how to log in there. */
export interface RedisAddress {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  readonly database: number
  readonly username?: string
  readonly password?: string
  /** Host and port for error messages, without user and password. */
  readonly name: string
}

/** Error messages never show the URL, which may contain a password. */
export function redisAddress(check: OptionChecker): RedisAddress {
  const url = check.text('url', { max: URL_CHARACTERS })
  // An unencoded '/', '?' or '#' of a password ends the host: the rest of the password would be taken for the database.
  const rest = url.slice(url.indexOf('//') + 2).replace(/^[^/?#]*/, '')
  if (!URL.canParse(url) || rest.includes('@')) {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' is not a URL. Expected redis://user:password@host:6379/0, with special characters ` +
        "percent-encoded: '/' as %2F, '?' as %3F, '#' as %23, and '@' as %40.",
    )
  }
  const { protocol, hostname, port, pathname, username, password, search, hash } = new URL(url)
  if ((protocol !== 'redis:' && protocol !== 'rediss:') || hostname === '') {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' must be redis://host or rediss://host, not ${oneLine(protocol, 40)}//….`,
    )
  }
  const database = /^\/?(\d{0,9})$/.exec(pathname)?.[1]
  if (database === undefined || search !== '' || hash !== '') {
    throw new InvalidOptionError(
      `${check.where}: after its host, the option 'url' may have only the number of a database, as in redis://host/0. Pass other ` +
        'settings as options.',
    )
  }
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return {
    host,
    port: port === '' ? DEFAULT_PORT : Number(port),
    isTls: protocol === 'rediss:',
    database: Number(database),
    ...(username === '' ? {} : { username: decoded(username) }),
    ...(password === '' ? {} : { password: decoded(password) }),
    name: `${oneLine(hostname, 255)}:${port === '' ? DEFAULT_PORT : port}`,
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
