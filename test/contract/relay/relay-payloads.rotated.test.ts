import { randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvalidMessageError, type NewMessage } from '@txbox/core'
import type { OutboxMessage } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { publishAll, publishTogether, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onEachRoot, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

const MIB = 1_048_576
const TEXT =
  'Grüße, \u{1f680} \u0000 NUL, \u2028, "quotes", \\x00, %s, $1, ?, \r\n\t, e\u0301 and \u00e9, \ufeff, \uffff'

/** Payloads, and the bytes that must be delivered. */
const payloads: Record<string, { message: Partial<NewMessage>; bytes: Uint8Array; contentType: string }> = {
  'no bytes at all': bytesOf(new Uint8Array(0)),
  'every byte there is': bytesOf(Uint8Array.from({ length: 256 }, (_, n) => n)),
  'a Buffer': bytesOf(Buffer.from('buffer')),
  'a part of a larger buffer': bytesOf(
    new Uint8Array(Uint8Array.from({ length: 256 }, (_, n) => n).buffer, 100, 7),
  ),
  'bytes that are no UTF-8': bytesOf(Uint8Array.of(0xc3, 0x28, 0xff, 0xfe, 0x00)),
  'bytes that look like hex': bytesOf(Buffer.from('\\xdeadbeef')),
  text: textOf(TEXT, 'text/plain'),
  'no text at all': textOf('', 'text/plain; charset=utf-8'),
  'text of another type': textOf('<a>ü</a>', 'application/xml'),
  'JSON that was written elsewhere, as bytes': {
    message: { payload: Buffer.from('{ "b" : 1.0,\n "a":1e400 }'), contentType: 'application/json' },
    bytes: Buffer.from('{ "b" : 1.0,\n "a":1e400 }'),
    contentType: 'application/json',
  },
  ...Object.fromEntries(
    Object.entries({
      null: null,
      false: false,
      zero: 0,
      'minus zero': -0,
      'an empty text': '',
      'a text': TEXT,
      'a lone surrogate': '\ud800',
      'an empty array': [],
      'an empty object': {},
      'large and small numbers': [Number.MAX_VALUE, Number.MIN_VALUE, 2 ** 53 + 2, 0.1 + 0.2, 1e21],
      'odd names': { '': 1, ' ': 2, '__proto__ ': 3, 'a.b': 4, '10': 5, '9': 6, 'ü\0': 7 },
      'a date': { at: new Date(0) },
      'members that are undefined': { a: undefined, b: [undefined], c: 1 },
      'deep nesting': JSON.parse('['.repeat(500) + ']'.repeat(500)) as unknown,
    }).map(([name, payload]) => [`${name} as JSON`, jsonOf(payload)]),
  ),
}

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  // Each message is published by a call of its own; one relay publishes them all, for the first test that asks.
  let relayed: Promise<OutboxMessage[]> | undefined

  test.for(Object.entries(payloads))(
    'O13 a payload is delivered unchanged: %s',
    async ([name, { bytes, contentType }]) => {
      const messages = Object.entries(payloads).map(([id, { message }]) =>
        Object.assign({ topic: 't', payload: null, id }, message),
      )
      relayed ??= roundTrip(root, messages, {}, publishAll)
      const message = (await relayed).find(({ id }) => id === name)!
      expect(Buffer.from(message.payload).equals(Buffer.from(bytes))).toBe(true)
      expect(message).toMatchObject({ topic: 't', contentType, headers: {}, attempt: 1 })
    },
  )

  test('O13 text() and json() decode the payload', async () => {
    const [text, json, bytes, marked] = await roundTrip(root, [
      { topic: 't', key: 'a', payload: TEXT, contentType: 'text/plain' },
      { topic: 't', key: 'a', payload: { text: TEXT, n: [1, null, { a: true }] } },
      { topic: 't', key: 'a', payload: Uint8Array.of(0xff) },
      { topic: 't', key: 'a', payload: Buffer.from('\uFEFF{}'), contentType: 'application/json' },
    ])
    expect(text!.text()).toBe(TEXT)
    expect(json!.json()).toEqual({ text: TEXT, n: [1, null, { a: true }] })
    expect(() => text!.json()).toThrow(InvalidMessageError)
    expect(bytes!.payload).toEqual(Buffer.from([0xff]))
    expect(() => bytes!.text()).toThrow(InvalidMessageError)
    expect(marked!.json()).toEqual({})
    expect(marked!.text()).toBe('\uFEFF{}')
  })

  test('O13 payloads of 10 MiB are delivered, alone and several in one batch, also with the smallest batchBytes', async () => {
    const large = Array.from({ length: 3 }, () => randomBytes(10 * MIB))
    const messages = large.map((payload, n) => ({ topic: 't', key: 'a', payload, id: `m${n}` }))
    const received = await roundTrip(root, messages, { batchBytes: 1024 })
    expect(received.map(({ id }) => id)).toEqual(['m0', 'm1', 'm2'])
    for (const [n, message] of received.entries()) expect(large[n]!.equals(message.payload)).toBe(true)
    const text = 'ü'.repeat(5 * MIB)
    const [asText] = await roundTrip(root, [{ topic: 't', payload: text, contentType: 'text/plain' }])
    expect(asText!.text() === text).toBe(true)
  })

  test('O13 all other fields of a message are delivered unchanged', async () => {
    const long = 'ü'.repeat(255)
    const full: NewMessage = {
      topic: long,
      type: TEXT.replace('\0', ''),
      key: '\u{1f680} k',
      payload: 1,
      contentType: 'application/vnd.test+json; charset=utf-8',
      headers: {
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        '': TEXT,
        ü: '',
        __proto__x: '{}',
      },
      correlationId: long,
      id: long,
    }
    const before = await target.now()
    const [received, bare] = await roundTrip(root, [full, { topic: 't', key: full.key, payload: {} }])
    const after = await target.now()
    const { topic, type, key, contentType, headers, correlationId, id } = received!
    expect({ topic, type, key, contentType, headers, correlationId, id, payload: received!.json() }).toEqual(
      full,
    )
    // One millisecond: a Date has no more, the database's clock does.
    expect(received!.createdAt.getTime()).toBeGreaterThanOrEqual(before.getTime() - 1)
    expect(received!.createdAt.getTime()).toBeLessThanOrEqual(after.getTime() + 1)
    for (const absent of ['type', 'correlationId'] as const) expect(bare![absent]).toBeUndefined()
    expect(bare!.headers).toEqual({})
  })

  test('O13 any bytes, headers and names are delivered unchanged', async () => {
    const text = (max: number) =>
      fc
        .string({ unit: 'binary', minLength: 1, maxLength: max })
        .filter((s) => !s.includes('\0') && s.length <= max)
    const message = fc.record(
      {
        topic: text(255),
        payload: fc.uint8Array({ maxLength: 3000 }),
        key: text(255),
        type: text(255),
        correlationId: text(255),
        headers: fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), { maxKeys: 5 }),
      },
      { requiredKeys: ['topic', 'payload'] },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 60 }), async (messages) => {
        const named = messages.map((message, n) => ({ ...message, id: `m${n}` }))
        const received = await roundTrip(root, named)
        const byId = new Map(received.map((message) => [message.id, message]))
        for (const sent of named) {
          const { topic, key, type, correlationId, headers, payload } = byId.get(sent.id)!
          expect({
            topic,
            key,
            type,
            correlationId,
            headers: { ...headers },
            payload: new Uint8Array(payload),
          }).toEqual({
            key: undefined,
            type: undefined,
            correlationId: undefined,
            ...sent,
            id: undefined,
            headers: { ...sent.headers },
          })
        }
      }),
      { numRuns: 5 },
    )
  })
})

describe('settings of others', () => {
  test.for(target.oddities)('O13 payloads are delivered unchanged through %s', async (odd) => {
    const root = target.openOdd(odd)
    try {
      const payload = Uint8Array.from({ length: 256 }, (_, n) => n)
      const messages = [
        { topic: 't', key: 'a', payload, headers: { a: TEXT }, id: 'm0' },
        { topic: 't', key: 'a', payload: { text: TEXT }, id: 'm1' },
      ]
      const received = [...(await roundTrip(root, messages)), ...(await roundTrip(root, [messages[0]!]))]
      expect(received.map(({ id }) => id)).toEqual(['m0', 'm1', 'm0'])
      expect(received.map(({ payload: bytes }) => Buffer.from(bytes).toString('hex'))).toEqual(
        [payload, Buffer.from(JSON.stringify({ text: TEXT })), payload].map((bytes) =>
          Buffer.from(bytes).toString('hex'),
        ),
      )
      expect(received[0]!.headers).toEqual({ a: TEXT })
      expect(Math.abs(received[0]!.createdAt.getTime() - (await target.now()).getTime())).toBeLessThan(60_000)
    } finally {
      await root.close()
    }
  })
})

/** Publishes the messages, by one call by default, and relays them. */
async function roundTrip(
  root: Root,
  messages: readonly NewMessage[],
  options: { batchBytes?: number } = {},
  publish = messages.length === 1 ? publishAll : publishTogether,
): Promise<OutboxMessage[]> {
  const broker = new Broker()
  await publish(root, messages)
  const subject = new RelayUnderTest(root, broker.publisher(), { leaseMs: 60_000, ...options })
  expect(await subject.relay.drain()).toEqual({ published: messages.length, parked: 0, deadLettered: 0 })
  await subject.relay.stop()
  expect(subject.describeErrors()).toBe('Errors: ')
  expect(await outbox.backlogSize()).toBe(0)
  return broker.log.map(({ message }) => message)
}

function bytesOf(bytes: Uint8Array) {
  return { message: { payload: bytes }, bytes, contentType: 'application/octet-stream' }
}

function textOf(text: string, contentType: string) {
  return { message: { payload: text, contentType }, bytes: Buffer.from(text), contentType }
}

function jsonOf(payload: unknown) {
  return {
    message: { payload },
    bytes: Buffer.from(JSON.stringify(payload)),
    contentType: 'application/json',
  }
}
