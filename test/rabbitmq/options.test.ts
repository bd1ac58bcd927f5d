import { expect, expectTypeOf, test } from 'vitest'
import {
  InvalidOptionError,
  rabbitmqPublisher,
  type Publisher,
  type RabbitmqPublisherOptions,
} from '@txbox/rabbitmq'

const url = 'amqp://127.0.0.1'

test('accepted options', async () => {
  const options: RabbitmqPublisherOptions[] = [
    { url },
    { url: 'amqps://user:pass%23word@[::1]:5671/a%2Fb?heartbeat=20' },
    { url, exchange: '', exchangeType: 'direct', assertExchange: true, tls: {} },
    { url, confirmTimeoutMs: 10, connectTimeoutMs: 3_600_000, maxMessageBytes: 1 },
    {
      url,
      tls: undefined,
      exchange: undefined,
      exchangeType: undefined,
      assertExchange: undefined,
      confirmTimeoutMs: undefined,
      connectTimeoutMs: undefined,
      maxMessageBytes: undefined,
    },
  ]
  for (const given of options) {
    const publisher = rabbitmqPublisher(given)
    expectTypeOf(publisher).toEqualTypeOf<Publisher>()
    expect(publisher.ordering).toBe('per-key')
    await publisher.close?.()
  }
})

const wrong: [string, object, RegExp][] = [
  ['no url', {}, /'url' must be text/],
  ['no URL', { url: 'rabbit.local' }, /'url' is not a URL\. Expected amqp:\/\//],
  [
    'another protocol',
    { url: 'https://user:secret@host' },
    /'url' must be amqp:\/\/host or amqps:\/\/host, not https:/,
  ],
  ['no host', { url: 'amqp:///shop' }, /'url' must be amqp:\/\/host/],
  [
    'an exchange of more than 255 bytes',
    { url, exchange: 'ü'.repeat(128) },
    /'exchange' must have at most 255 bytes/,
  ],
  ['an exchange that is no text', { url, exchange: 1 }, /'exchange' must be text/],
  ['a type that there is not', { url, exchangeType: 'queue' }, /'exchangeType' must be 'topic' or 'direct'/],
  ['a flag that is none', { url, assertExchange: 'yes' }, /'assertExchange' must be true or false/],
  [
    'too short a time',
    { url, confirmTimeoutMs: 9 },
    /'confirmTimeoutMs' must be a number of milliseconds from 10/,
  ],
  ['too long a time', { url, connectTimeoutMs: 3_600_001 }, /'connectTimeoutMs' must be/],
  [
    'too large a size',
    { url, maxMessageBytes: 536_870_913 },
    /'maxMessageBytes' must be a whole number from 1/,
  ],
  [
    'another member of tls',
    { url, tls: { rejectUnauthorized: false } },
    /'tls' must be an object with no other/,
  ],
  ['a misspelt option', { url, exchanges: 'a' }, /there is no option 'exchanges'/],
]

for (const [name, options, text] of wrong) {
  test(`${name} is an InvalidOptionError when the publisher is created`, () => {
    const make = (): Publisher => rabbitmqPublisher(options as RabbitmqPublisherOptions)
    expect(make).toThrow(InvalidOptionError)
    expect(make).toThrow(text)
    expect(make).not.toThrow(/secret/)
  })
}
