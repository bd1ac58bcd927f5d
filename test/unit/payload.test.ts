import { expect, test } from 'vitest'
import { InvalidMessageError } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { payloadOf } from '../../packages/command/src/payload-of.ts'
import type { HeldDelivery } from '../../packages/consumer/src/receive/held-delivery.ts'
import { deadLetterMessage } from '../../packages/consumer/src/settle/dead-letter-message.ts'
import { decodedMessage } from '../../packages/queue/src/received-message.ts'

const BYTES = Uint8Array.of(0x7a, 0xeb)
const NO_BYTES = 'undecodable'

/** The result of each reader of a payload. All readers must agree. */
function readings(contentType: string, payload: Uint8Array): Record<string, unknown> {
  const { message, undecodable } = decodedMessage({
    ...{ id: 'm', headers: {}, createdAt: new Date(), payload, contentType },
  } as unknown as QueueMessage)
  const shown = payloadOf(contentType, payload)
  return {
    queue: undecodable === undefined ? message.payload : NO_BYTES,
    command: 'payload' in shown ? shown['payload'] : Buffer.from(String(shown['payloadBase64']), 'base64'),
  }
}

test.for<[string, string, unknown]>([
  ['application/json', '{"a":1}', { a: 1 }],
  ['application/json', '\uFEFF{"a":1}', { a: 1 }],
  ['Application/Problem+JSON ; charset=utf-8', '\uFEFF"Zoë"', 'Zoë'],
  ['text/plain', '\uFEFFZoë', '\uFEFFZoë'],
  ['Text/CSV; header=present', 'Zoë', 'Zoë'],
  ['text/plain; charset=UTF8', 'Zoë', 'Zoë'],
  ['text/plain; header="/json"', 'Zoë', 'Zoë'],
])('%s: every reader decodes %j as %j', ([contentType, text, value]) => {
  const payload = Buffer.from(text)
  expect(readings(contentType, payload)).toEqual({ queue: value, command: value })
  const delivery = { content: payload, properties: { messageId: 'm', contentType } }
  expect(fromRabbitmq(delivery).payload).toEqual(value)
})

test.for(['application/octet-stream', 'text/plain; charset=latin1', 'a/b; c=d/json', 'json', 'texts/plain'])(
  '%s remains bytes when txbox stored it',
  (contentType) => {
    const payload = Buffer.from('{}')
    const { queue, command } = readings(contentType, payload)
    expect(queue).toBe(payload)
    expect(command).toEqual(payload)
  },
)

test('a dead letter keeps the byte order mark of a text, and refuses a payload that is not JSON', () => {
  const letter = (payload: unknown): ReturnType<typeof deadLetterMessage> =>
    deadLetterMessage(
      {
        message: { id: 'm', payload },
        identity: { source: undefined, id: 'm' },
        source: 's',
        deliveries: 1,
        delivery: {},
      } as unknown as HeldDelivery,
      'dead',
      new Error('no'),
    )
  expect(letter('\uFEFF{"a":1}').text()).toBe('\uFEFF{"a":1}')
  expect(letter('\uFEFF{"a":1}').json()).toEqual({ a: 1 })
  expect(() => letter(BYTES).text()).toThrow(InvalidMessageError)
  expect(() => letter('secret').json()).toThrow(InvalidMessageError)
  expect(() => letter('secret').json()).not.toThrow('secret')
})
