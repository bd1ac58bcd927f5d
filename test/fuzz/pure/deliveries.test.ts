import * as fc from 'fast-check'
import { expect } from 'vitest'
import type { OutboxMessage } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { outgoingMessage } from '../../../packages/rabbitmq/src/publish/outgoing-message.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import {
  anything,
  hostileJson,
  hostileRecord,
  hostileText,
  SECRET,
  withOwnMembers,
} from '../../support/worlds/hostile-values.ts'
import { expectRefusal, outcomeOf, outcomeOfAsync } from '../../support/worlds/refusals.ts'

const contentType = fc.oneof(
  hostileText(),
  fc.constantFrom(
    'application/json',
    'application/json; charset=latin1',
    'text/plain; charset="utf-16le"',
    'text/plain; charset=no-such-charset',
    'a/b+json',
    'application/octet-stream',
  ),
)

/** A body: JSON, JSON that was cut or altered, text, or any bytes. Buffers, as the client hands them over. */
const body = fc.oneof(
  hostileJson().map((value) => Buffer.from(JSON.stringify(value))),
  fc
    .tuple(hostileJson(), fc.nat(40), fc.uint8Array({ maxLength: 4 }))
    .map(([value, at, bytes]) =>
      Buffer.concat([Buffer.from(JSON.stringify(value)).subarray(0, at), bytes, Buffer.from(SECRET)]),
    ),
  hostileText().map((text) => Buffer.from(text)),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  fc
    .constantFrom('['.repeat(100_000), '{"a":'.repeat(50_000), '\uFEFF{}', 'NaN', '1e999')
    .map((text) => Buffer.from(text)),
)

/** A field of a header table, as amqplib decodes it. */
const field = fc.oneof(
  hostileText(),
  fc.double(),
  fc.bigInt(),
  fc.boolean(),
  fc.constant(null),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  fc.constantFrom({ '!': 'timestamp', value: 2 ** 60 }, { '!': 'decimal', value: { places: 2, digits: 1 } }, [
    { count: 1 },
  ]),
)
const headerName = fc.oneof(
  hostileText(),
  fc.constantFrom('cloudEvents:source', 'cloudEvents_source', 'x-death', 'txbox-key'),
)

const delivery = fc.record({
  content: body,
  fields: fc.constant({}),
  properties: hostileRecord({
    messageId: hostileText(),
    correlationId: hostileText(),
    type: hostileText(),
    timestamp: fc.oneof(fc.double(), fc.bigInt(), fc.integer(), fc.constantFrom(2 ** 63, -1, 8.64e15)),
    contentType,
    contentEncoding: fc.oneof(hostileText(), fc.constantFrom('gzip', 'utf-8', 'identity')),
    headers: fc.array(fc.tuple(headerName, field), { maxLength: 4 }).map(withOwnMembers),
  }),
})

fuzz(
  'a delivery becomes a message that an inbox takes, or is refused',
  3000,
  fc.oneof({ weight: 5, arbitrary: delivery }, anything()),
  async (given) => {
    const decoded = outcomeOf(() => fromRabbitmq(given as never))
    if ('thrown' in decoded) return expectRefusal(decoded.thrown, 'TXBOX_INVALID_MESSAGE')
    const message = decoded.result
    for (const text of Object.values(message.headers ?? {})) expect(typeof text).toBe('string')
    if (message.time !== undefined) expect(Number.isNaN((message.time as Date).getTime())).toBe(false)
    const inbox = createInbox({ database: postgres(), consumer: 'c' })
    const taken = await outcomeOfAsync(() => inbox.process({} as never, message, () => 1))
    if ('thrown' in taken)
      expectRefusal(taken.thrown, 'TXBOX_INVALID_MESSAGE', 'TXBOX_UNSUPPORTED_TRANSACTION')
  },
)

const outgoing = fc.record({
  id: hostileText(),
  topic: hostileText(),
  type: fc.option(hostileText(), { nil: undefined }),
  key: fc.option(hostileText(), { nil: undefined }),
  correlationId: fc.option(hostileText(), { nil: undefined }),
  contentType,
  payload: fc.uint8Array(),
  headers: fc.array(fc.tuple(headerName, hostileText()), { maxLength: 3 }).map(withOwnMembers),
  createdAt: fc.date({ noInvalidDate: false }),
})

fuzz('a message of any texts fits AMQP, or is refused for good', 1500, outgoing, (message) => {
  const outcome = outcomeOf(() => outgoingMessage(message as unknown as OutboxMessage, 1000))
  if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_PERMANENT')
  const { messageId, type, correlationId, contentType } = outcome.result.properties
  for (const text of [outcome.result.routingKey, messageId, type, correlationId, contentType]) {
    expect(Buffer.byteLength(text ?? '')).toBeLessThanOrEqual(255)
  }
})
