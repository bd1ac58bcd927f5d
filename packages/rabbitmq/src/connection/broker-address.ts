import { InvalidOptionError } from '@txbox/core'
import { oneLine, type OptionChecker } from '@txbox/core/internal'

const URL_CHARACTERS = 8192

/**
 * The heartbeat of a URL that sets none, in seconds: a network that has become silent is noticed within two to three times
 * this time. The broker suggests 60.
 */
const HEARTBEAT = 20

export interface BrokerAddress {
  /** The URL for the client, with a heartbeat. */
  readonly url: string
  /** The name in error messages: host and vhost, without user and password. */
  readonly name: string
  readonly server: { readonly address: string; readonly port: number }
  /** The user who connects. */
  readonly user: string
}

/** Error messages never show the URL, which may contain a password. */
export function brokerAddress(check: OptionChecker): BrokerAddress {
  const url = check.text('url', { max: URL_CHARACTERS })
  // An unencoded '/', '?' or '#' of a password ends the host: the rest of the password would be taken for the vhost.
  if (
    !URL.canParse(url) ||
    url
      .slice(url.indexOf('//') + 2)
      .replace(/^[^/?#]*/, '')
      .includes('@')
  ) {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' is not a URL. Expected amqp://user:password@host:5672/vhost, with special ` +
        "characters percent-encoded: '/' as %2F, '?' as %3F, '#' as %23, and '@' as %40.",
    )
  }
  const { protocol, hostname, port, pathname, username } = new URL(url)
  if ((protocol !== 'amqp:' && protocol !== 'amqps:') || hostname === '') {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' must be amqp://host or amqps://host, not ${oneLine(protocol, 40)}//….`,
    )
  }
  refuseIgnoredTls(check.where, url)
  const server = {
    address: oneLine(hostname, 255),
    port: port === '' ? (protocol === 'amqp:' ? 5672 : 5671) : Number(port),
  }
  return {
    url: withHeartbeat(url),
    name: `${server.address}:${server.port}, vhost '${oneLine(decoded(pathname.slice(1)) || '/')}'`,
    server,
    user: decoded(username) || 'guest',
  }
}

/** The client ignores parameters that ask for TLS, and would connect without it. With amqps, it verifies the broker in any case. */
function refuseIgnoredTls(where: string, url: string): void {
  const { searchParams, protocol } = new URL(url)
  if (protocol !== 'amqp:') return
  for (const name of searchParams.keys()) {
    if (!/ssl|tls|certfile|keyfile|verify/i.test(name)) continue
    throw new InvalidOptionError(
      `${where}: the option 'url' has the parameter '${oneLine(name, 40)}', which the client ignores: it would connect without TLS. ` +
        "Write amqps://… for TLS, and pass certificates by the option 'tls'.",
    )
  }
}

/** Adds to the text, because a URL that is parsed and written again may have another password. */
function withHeartbeat(url: string): string {
  const { searchParams, hash } = new URL(url)
  if (searchParams.has('heartbeat')) return url
  const text = hash === '' ? url : url.slice(0, url.indexOf('#'))
  return `${text}${text.includes('?') ? '&' : '?'}heartbeat=${HEARTBEAT}`
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
