import { InvalidOptionError } from '@txbox/core'
import { oneLine, type OptionChecker } from '@txbox/core/internal'

/** The longest address that is taken. */
const URL_CHARACTERS = 8192

export interface BrokerAddress {
  readonly url: string
  /** For messages: host and vhost, no user and no password. */
  readonly name: string
}

/** Reads the option `url`. What is wrong with it is said without showing it, since it may hold a password. */
export function brokerAddress(check: OptionChecker): BrokerAddress {
  const url = check.text('url', { max: URL_CHARACTERS })
  if (!URL.canParse(url)) {
    throw new InvalidOptionError(
      `${check.where}: the option 'url' is no URL. Expected amqp://user:password@host:5672/vhost, with what is ` +
        'special in a URL percent-encoded.',
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
