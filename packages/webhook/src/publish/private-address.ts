import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** Addresses of IPv4 that are not for the public internet, with those for documentation and tests (RFC 6890 and its registry). */
const PRIVATE_IPV4: readonly (readonly [string, number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
]
/** Parts of 2000::/3, the only public part of IPv6, that are not for the public internet. */
const PRIVATE_IPV6: readonly (readonly [string, number])[] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['3fff::', 20],
]
const PUBLIC_IPV6 = ['2000::', 3] as const

/** Prefixes of addresses of IPv6 that have one of IPv4 inside, and the first of its 16-bit groups. */
const IPV4_INSIDE: readonly { readonly prefix: string; readonly bits: number; readonly group: number }[] = [
  // Mapped and translated addresses.
  { prefix: '::ffff:0:0', bits: 96, group: 6 },
  { prefix: '::ffff:0:0:0', bits: 96, group: 6 },
  // NAT64.
  { prefix: '64:ff9b::', bits: 96, group: 6 },
  // 6to4.
  { prefix: '2002::', bits: 16, group: 1 },
]

const privateAddresses = new BlockList()
for (const [address, bits] of PRIVATE_IPV4) privateAddresses.addSubnet(address, bits, 'ipv4')
for (const [address, bits] of PRIVATE_IPV6) privateAddresses.addSubnet(address, bits, 'ipv6')
const publicIpv6 = new BlockList()
publicIpv6.addSubnet(...PUBLIC_IPV6, 'ipv6')
const embedding = IPV4_INSIDE.map(({ prefix, bits, group }) => {
  const list = new BlockList()
  list.addSubnet(prefix, bits, 'ipv6')
  return { list, group }
})

/**
 * Whether an IP address is not one of the public internet: private, loopback, link-local (where clouds serve metadata), multicast,
 * reserved, or for documentation. An address of IPv4 inside one of IPv6 is looked at itself, also behind NAT64. What is no IP
 * address counts as private.
 */
export function isPrivateAddress(address: string): boolean {
  if (isIPv4(address)) return privateAddresses.check(address, 'ipv4')
  // A zone, as in fe80::1%eth0, exists for link-local addresses only.
  if (!isIPv6(address) || address.includes('%')) return true
  const found = embedding.find(({ list }) => list.check(address, 'ipv6'))
  if (found !== undefined) return isPrivateAddress(ipv4At(found.group, groupsOf(address)))
  return !publicIpv6.check(address, 'ipv6') || privateAddresses.check(address, 'ipv6')
}

function ipv4At(group: number, groups: readonly number[]): string {
  const [high, low] = [groups[group]!, groups[group + 1]!]
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** The eight groups of 16 bits of an address of IPv6. */
function groupsOf(address: string): readonly number[] {
  // The URL parser writes an address in its shortest form, without a part in dots.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const read = (part: string): number[] =>
    part
      .split(':')
      .filter((text) => text !== '')
      .map((text) => Number.parseInt(text, 16))
  const [first, last] = [read(head), read(tail ?? '')]
  return [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last]
}
