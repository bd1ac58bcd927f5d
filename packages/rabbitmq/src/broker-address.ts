import { InvalidOptionError } from '@txbox/core'
import { oneLine, type OptionChecker } from '@txbox/core/internal'

/** The maximum length of an address. */
const URL_CHARACTERS = 8192

export interface BrokerAddress {
  readonly url: string
  /** The name in error messages: host and vhost, without user and password. */
  readonly name: string
}

/** Reads the option `url`. Error messages never show the URL, which may contain a password. */
export function brokerAddress(check: OptionChecker): BrokerAddress {
  const url = check.text('url', { max: URL_CHARACTERS })
  if (!URL.canParse(url)) {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' is not a URL. Expected amqp://user:password@host:5672/vhost, with special ` +
        'characters percent-encoded.',
    )
  }
  const { protocol, hostname, port, pathname } = new URL(url)
  if ((protocol !== 'amqp:' && protocol !== 'amqps:') || hostname === '') {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' must be amqp://host or amqps://host, not ${oneLine(protocol, 40)}//….`,
    )
  }
  const host = `${oneLine(hostname, 255)}:${port === '' ? (protocol === 'amqp:' ? 5672 : 5671) : port}`
  return { url, name: `${host}, vhost '${oneLine(vhostOf(pathname))}'` }
}

function vhostOf(pathname: string): string {
  const encoded = pathname.slice(1)
  if (encoded === '') return '/'
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
