import type { Publisher } from '../ports/publisher.ts'

const PORTS = { http: 80, https: 443 } as const

/**
 * Returns the server of these addresses for spans and metrics; `undefined` for several, because it is not known which one a call reaches.
 *
 * @param addresses each as `host:port`, with an IPv6 address in brackets.
 */
export function onlyServer(addresses: readonly string[]): Publisher['server'] {
  const [first, ...others] = addresses
  const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(first ?? '') ?? []
  return host === undefined || others.length > 0 ? undefined : { address: host, port: Number(port) }
}

/** Returns the server of a URL of http or https for spans and metrics. */
export function serverOfUrl(url: string): Publisher['server'] {
  const { protocol, hostname, port } = new URL(url)
  const usual = protocol === 'http:' ? PORTS.http : PORTS.https
  return onlyServer([`${hostname}:${port === '' ? usual : port}`])
}
