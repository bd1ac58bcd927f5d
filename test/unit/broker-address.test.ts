import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import { brokerAddress } from '../../packages/rabbitmq/src/connection/broker-address.ts'

test.for([
  ['amqp://host', 'amqp://host?heartbeat=20'],
  ['amqp://u:p%2F%c3%bc@host:1/v%2Fh', 'amqp://u:p%2F%c3%bc@host:1/v%2Fh?heartbeat=20'],
  ['amqps://host/v?frameMax=8192', 'amqps://host/v?frameMax=8192&heartbeat=20'],
  ['amqp://host/v?', 'amqp://host/v?&heartbeat=20'],
  ['amqp://host/v#part', 'amqp://host/v?heartbeat=20'],
  ['amqp://host/v?heartbeat=0', 'amqp://host/v?heartbeat=0'],
  ['amqp://host/v?frameMax=8192&heartbeat=5', 'amqp://host/v?frameMax=8192&heartbeat=5'],
] as const)(
  'a URL without a heartbeat gets one, so that a silent network is noticed: %s',
  ([url, expected]) => {
    expect(brokerAddress(new OptionChecker('test', { url })).url).toBe(expected)
  },
)

test.for([
  'amqp://user:12/34secret@host/vhost',
  'amqp://user:12/34secret@host:5672',
  'amqp://user/secret@host',
  'amqp://user:12?34secret@host/vhost',
  'amqp://user:12#34secret@host/vhost',
  'amqps://user:se/cret@host/vhost',
  'amqp://user:12/secret%40more@host',
])(
  'a URL whose password has an unencoded character is refused, and nothing of the password is shown: %s',
  (url) => {
    const address = (): unknown => brokerAddress(new OptionChecker('test', { url }))
    expect(address).toThrow(InvalidOptionError)
    expect(address).toThrow(/percent-encoded/)
    expect(address).not.toThrow(/secret|34|cret/)
  },
)

test("a vhost with an encoded '@' or '/' is a vhost", () => {
  const { name } = brokerAddress(new OptionChecker('test', { url: 'amqp://user:pa%2Fss@host/a%40b%2Fc' }))
  expect(name).toBe("host:5672, vhost 'a@b/c'")
})

test.for([
  'ssl-mode=REQUIRED',
  'ssl=true',
  'sslmode=require',
  'tls=1',
  'cacertfile=/ca.pem',
  'verify=verify_peer',
])(
  'a parameter that asks for TLS is refused, because the client would connect without TLS: %s',
  (parameter) => {
    const address = (scheme: string): unknown =>
      brokerAddress(new OptionChecker('test', { url: `${scheme}://u:hidden@host/v?${parameter}` }))
    expect(() => address('amqp')).toThrow(/without TLS. Write amqps:/)
    expect(() => address('amqp')).not.toThrow(/hidden/)
    expect(() => address('amqps')).not.toThrow()
  },
)
