import dns from 'node:dns'
import { isIP } from 'node:net'
import { isPrivateAddress } from './private-address.ts'

/** Whether a URL may be called, at the address that its host resolved to. */
export type AllowUrl = (url: URL, address: string) => boolean | Promise<boolean>

export interface Address {
  readonly address: string
  readonly family: number
}

/** The lookups in progress, by host. */
const lookups = new Map<string, Promise<readonly Address[]>>()

/** No address of the host may be called. */
export class RefusedAddress extends Error {}

/** The default: https, and no private address. */
export function isPublicHttps(url: URL, address: string): boolean {
  return url.protocol === 'https:' && !isPrivateAddress(address)
}

/**
 * Resolves the host of a URL, once, or together with others who ask for it at the moment. The connection is then made to one of these
 * addresses: DNS cannot answer `allow` with one address and the connection with another one.
 *
 * @returns the addresses that may be called.
 * @throws {RefusedAddress} when none may be called; the error of DNS when the host has no address.
 */
export async function allowedAddresses(url: URL, allow: AllowUrl): Promise<readonly Address[]> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const family = isIP(host)
  const addresses = family === 0 ? await lookedUp(host) : [{ address: host, family }]
  const allowed: Address[] = []
  for (const each of addresses) if (await allow(url, each.address)) allowed.push(each)
  if (allowed.length > 0) return allowed
  throw new RefusedAddress(
    "no address of the host may be called. By default, only https and public addresses may; the option 'allow' decides",
  )
}

/**
 * The addresses of a host by one lookup at a time. A lookup occupies one of the four threads that Node.js has for names and files until it
 * ends, also when nobody waits any more: messages to a host whose DNS does not answer must not occupy all of them.
 */
function lookedUp(host: string): Promise<readonly Address[]> {
  const running = lookups.get(host)
  if (running !== undefined) return running
  const lookup = dns.promises.lookup(host, { all: true }).finally(() => lookups.delete(host))
  lookups.set(host, lookup)
  return lookup
}
