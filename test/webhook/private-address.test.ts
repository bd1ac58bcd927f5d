import dns from 'node:dns'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { webhookPublisher } from '@txbox/webhook'
import { isPrivateAddress } from '../../packages/webhook/src/publish/private-address.ts'
import { outboxMessage, publish, reason, summary } from '../support/subjects/publishing.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'

afterEach(() => void vi.restoreAllMocks())

/** Makes every name resolve to these addresses. @returns the names that were asked for. */
function resolveTo(...addresses: string[]): string[] {
  const asked: string[] = []
  vi.spyOn(dns.promises, 'lookup').mockImplementation(((name: string) => {
    asked.push(name)
    return Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })))
  }) as never)
  // Nothing else may resolve a name.
  vi.spyOn(dns, 'lookup').mockImplementation(() => {
    throw new Error('resolved a second time')
  })
  return asked
}

const PRIVATE = [
  ...[
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '100.64.0.1',
    '100.127.255.255',
    '127.0.0.1',
    '127.9.9.9',
    '169.254.169.254',
  ],
  ...[
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.8',
    '192.0.2.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.19.255.255',
  ],
  ...[
    '198.51.100.7',
    '203.0.113.7',
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    '192.88.99.1',
  ],
  ...[
    '::',
    '::1',
    '::7f00:1',
    '::127.0.0.1',
    'fe80::1',
    'fe80::1%eth0',
    'febf::1',
    'fec0::1',
    'fc00::1',
    'fd00:ec2::254',
  ],
  ...[
    'ff02::1',
    '2001:db8::1',
    '3fff::1',
    '2001::1',
    '2001:10::1',
    '100::1',
    '5f00::1',
    '64:ff9b:1::1',
    '4000::1',
  ],
  // IPv4 inside: mapped, translated, NAT64 and 6to4.
  ...['::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:10.0.0.1', '::ffff:0:10.0.0.1', '64:ff9b::127.0.0.1'],
  ...['64:ff9b::a9fe:a9fe', '64:ff9b::10.1.2.3', '2002:7f00:1::', '2002:a9fe:a9fe::1', '2002:c0a8:101::'],
  ...['', 'localhost', '127.1', '1.2.3.4.5', '0x7f.0.0.1', '::g'],
]
const PUBLIC = [
  ...[
    '1.1.1.1',
    '8.8.8.8',
    '100.63.255.255',
    '100.128.0.1',
    '172.15.255.255',
    '172.32.0.1',
    '169.253.1.1',
    '11.0.0.1',
  ],
  ...[
    '192.0.1.1',
    '198.17.255.255',
    '198.20.0.1',
    '223.255.255.255',
    '2606:4700::1111',
    '2a00:1450:4001::8',
    '2003::1',
  ],
  ...['::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2002:808:808::1', '3ffe::1'],
]

test.for(PRIVATE)('W7 the address %s is private', (address) => expect(isPrivateAddress(address)).toBe(true))
test.for(PUBLIC)('W7 the address %s is public', (address) => expect(isPrivateAddress(address)).toBe(false))

describe('by default', () => {
  test.for([
    'http://8.8.8.8/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0177.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://169.254.169.254/latest/meta-data',
    'https://localhost/',
  ])('W7 %s is not called: the message is rejected for now', async (topic) => {
    const publisher = webhookPublisher()
    const results = await publish(publisher, [outboxMessage({ topic })])
    expect(summary(results)).toEqual(['rejected for now'])
    expect(reason(results[0])).toContain("only https and public addresses may; the option 'allow' decides")
  })

  test('W7 a name that resolves to private addresses only is not called', async () => {
    resolveTo('10.0.0.1', '::1', '64:ff9b::a00:1')
    const results = await publish(webhookPublisher(), [outboxMessage({ topic: 'https://shop.example/' })])
    expect(summary(results)).toEqual(['rejected for now'])
  })
})

test('W7 allow sees the URL and each address, and its errors and refusals are rejections', async () => {
  resolveTo('127.0.0.1', '::1')
  const seen: string[] = []
  const publisher = webhookPublisher({
    allow: async (url, address) => {
      seen.push(`${url.href} ${address}`)
      return false
    },
  })
  const results = await publish(publisher, [outboxMessage({ topic: 'http://user:pass@shop.example/a?b#c' })])
  expect(summary(results)).toEqual(['rejected for now'])
  expect(seen).toEqual(['http://shop.example/a?b 127.0.0.1', 'http://shop.example/a?b ::1'])
  const failing = webhookPublisher({ allow: () => Promise.reject(new Error('list not loaded')) })
  const [failed] = await publish(failing, [outboxMessage({ topic: 'http://shop.example/' })])
  expect(reason(failed)).toContain('list not loaded')
})

test('W7 the address that allow has seen is the one that is connected to, and the name is resolved once', async () => {
  const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
  const asked = resolveTo('10.255.255.1', '127.0.0.1')
  const publisher = webhookPublisher({ allow: (_, address) => address === '127.0.0.1', timeoutMs: 2000 })
  const topic = `http://shop.example:${endpoint.port}/hook`
  expect(summary(await publish(publisher, [outboxMessage({ topic })]))).toEqual(['accepted'])
  expect(asked).toEqual(['shop.example'])
  expect(endpoint.all[0]?.headers.host).toBe(`shop.example:${endpoint.port}`)
  await publisher.close?.()
})

test('W7 a connection is not used again when the name has other addresses by now', async () => {
  const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
  const publisher = webhookPublisher({ allow: () => true, timeoutMs: 1000 })
  const topic = `http://shop.example:${endpoint.port}/hook`
  resolveTo('127.0.0.1')
  const isReused = (): boolean => endpoint.all.at(-1)?.clientPort === endpoint.all.at(-2)?.clientPort
  while (endpoint.all.length < 2 || !isReused()) {
    expect(summary(await publish(publisher, [outboxMessage({ topic })]))).toEqual(['accepted'])
    await new Promise((resolve) => setImmediate(resolve))
  }
  // Nothing listens there: a reused connection would still be accepted.
  vi.restoreAllMocks()
  resolveTo('127.0.0.9')
  expect(summary(await publish(publisher, [outboxMessage({ topic })]))).toEqual(['rejected for now'])
  await publisher.close?.()
})
