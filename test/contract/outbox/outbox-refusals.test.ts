import { expect, test } from 'vitest'
import { InvalidMessageError, InvalidOptionError, isTxboxError, type NewMessage } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { outboxOf } from '../../support/subjects/relay-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

const MIB = 1_048_576
const LONE_SURROGATE = 'a\ud800b'
const cycle: Record<string, unknown> = {}
cycle['self'] = cycle

/** What no text that a broker or a database must carry may be. */
function badTexts(max: number): Record<string, unknown> {
  return {
    'an empty text': '',
    [`${max + 1} characters`]: 'x'.repeat(max + 1),
    'a NUL': 'a\0b',
    'a lone surrogate': LONE_SURROGATE,
    'a number': 7,
    'an object': {},
    'an array': ['a'],
    'a boolean': true,
  }
}

/** Each is a message that is fine but for one thing. */
const refused: Record<string, unknown> = {
  ...mapValues(badTexts(255), 'topic', (topic) => ({ topic, payload: {} })),
  ...mapValues(badTexts(255), 'key', (key) => ({ topic: 't', payload: {}, key })),
  ...mapValues(badTexts(255), 'id', (id) => ({ topic: 't', payload: {}, id })),
  ...mapValues(badTexts(255), 'type', (type) => ({ topic: 't', payload: {}, type })),
  ...mapValues(badTexts(255), 'correlationId', (correlationId) => ({
    topic: 't',
    payload: {},
    correlationId,
  })),
  ...mapValues(badTexts(255), 'contentType', (contentType) => ({ topic: 't', payload: 'x', contentType })),
  'no topic': { payload: {} },
  'a topic that is null': { topic: null, payload: {} },
  'no payload': { topic: 't' },
  'a payload that is a function': { topic: 't', payload: () => 1 },
  'a payload that is a symbol': { topic: 't', payload: Symbol('s') },
  'a payload that is a bigint': { topic: 't', payload: 1n },
  'a payload with a bigint in it': { topic: 't', payload: { amount: 1n } },
  'a payload with a cycle': { topic: 't', payload: cycle },
  'a payload whose toJSON throws': {
    topic: 't',
    payload: { toJSON: () => JSON.parse('nonsense') as unknown },
  },
  'text with a lone surrogate': { topic: 't', payload: LONE_SURROGATE, contentType: 'text/plain' },
  'an object as text': { topic: 't', payload: { a: 1 }, contentType: 'text/plain' },
  'an object as bytes': { topic: 't', payload: { a: 1 }, contentType: 'application/octet-stream' },
  'bytes of more than 10 MiB': { topic: 't', payload: new Uint8Array(10 * MIB + 1) },
  'JSON of more than 10 MiB': { topic: 't', payload: 'x'.repeat(10 * MIB - 1) },
  'text of more than 10 MiB in UTF-8': {
    topic: 't',
    payload: 'ü'.repeat(5 * MIB + 1),
    contentType: 'text/plain',
  },
  'headers that are no object': { topic: 't', payload: {}, headers: 'a=b' },
  'headers that are an array': { topic: 't', payload: {}, headers: ['a'] },
  'a header that is a number': { topic: 't', payload: {}, headers: { a: 1 } },
  'a header that is null': { topic: 't', payload: {}, headers: { a: null } },
  'a header that is undefined': { topic: 't', payload: {}, headers: { a: undefined } },
  'a header with a lone surrogate': { topic: 't', payload: {}, headers: { a: LONE_SURROGATE } },
  "a header's name with a lone surrogate": { topic: 't', payload: {}, headers: { [LONE_SURROGATE]: 'a' } },
  'headers of more than 64 KiB': { topic: 't', payload: {}, headers: { a: 'x'.repeat(65_536) } },
  'a header that would be a field on the wire': { topic: 't', payload: {}, headers: { 'txbox-id': 'a' } },
  'such a header in another case': { topic: 't', payload: {}, headers: { a: 'b', 'TxBox-Key': 'a' } },
  'a header that txbox may use later': { topic: 't', payload: {}, headers: { 'txbox-': '' } },
  'a header of a dead letter in another case': { topic: 't', payload: {}, headers: { 'Txbox-Error': 'a' } },
  'a deliverAt that is no instant': { topic: 't', payload: {}, deliverAt: new Date(Number.NaN) },
  'a deliverAt that is text': { topic: 't', payload: {}, deliverAt: '2030-01-01' },
  'a deliverAt beyond all calendars': { topic: 't', payload: {}, deliverAt: new Date(8.64e15) },
  'a field that there is not': { topic: 't', payload: {}, deliverAfter: new Date() },
  'a field of the inbox': { topic: 't', payload: {}, source: 'shop' },
  'a field whose value is null': { topic: 't', payload: {}, priority: null },
  'a field named like a method of objects': JSON.parse('{"topic":"t","payload":{},"toString":1}'),
  'a message that is null': null,
  'a message that is text': 'hello',
}

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  for (const [what, message] of Object.entries(refused)) {
    test(`O13 refused at publish: ${what}; nothing was written, and the transaction is fine`, async () => {
      const transaction = await root.begin()
      const publisher = outboxOf(root)
      const good: NewMessage = { topic: 't', payload: {}, id: 'good' }
      await publisher.publish(transaction.tx, good)
      for (const messages of [message, [{ topic: 't', payload: {} }, message]]) {
        const error = await publisher
          .publish(transaction.tx, messages as NewMessage)
          .catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(InvalidMessageError)
        expect((error as Error).message.length).toBeLessThan(600)
        expect(isTxboxError(error) && [error.code, error.retryable]).toEqual(['TXBOX_INVALID_MESSAGE', false])
      }
      await transaction.commit()
      expect((await outbox.backlog()).map(({ id }) => id)).toEqual(['good'])
    })
  }

  test('O13 more than 64 MiB in one call are refused, and nothing was written', async () => {
    const transaction = await root.begin()
    const payload = new Uint8Array(10 * MIB)
    const messages = Array.from({ length: 7 }, () => ({ topic: 't', payload }))
    await expect(outboxOf(root).publish(transaction.tx, messages)).rejects.toThrow(InvalidMessageError)
    await transaction.commit()
    expect(await outbox.backlog()).toEqual([])
  })
})

test('an error about deliverAt shows the instant and the range', async () => {
  const publisher = createOutbox({ database: target.detached() })
  const deliverAt = new Date(Date.UTC(9999, 11, 31) + 1)
  const publishing = publisher.publish({} as never, { topic: 't', payload: {}, deliverAt })
  await expect(publishing).rejects.toThrow(
    'a Date from 1970-01-01 to 9999-12-31 at midnight UTC, not 9999-12-31T00:00:00.001Z',
  )
})

test('an error of publish does not show the payload', async () => {
  const publisher = createOutbox({ database: target.detached() })
  const secret = 'correct horse battery staple'
  const message = { topic: `${secret}\0`, key: `${secret}\0`, payload: secret, contentType: 'text/plain' }
  const error: unknown = await publisher.publish({} as never, message).catch((thrown: unknown) => thrown)
  expect(String(error)).not.toContain(secret)
})

test('O13 an error of publish names a reserved header, in one line of a bounded length, and not its value', async () => {
  const publisher = createOutbox({ database: target.detached() })
  const refusal = async (name: string): Promise<string> => {
    const message = { topic: 't', payload: 1, headers: { [name]: 'correct horse' } }
    const error: unknown = await publisher.publish({} as never, message).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(InvalidMessageError)
    return (error as Error).message
  }
  expect(await refusal('TXBOX-Type')).toBe(
    "publish: the header 'TXBOX-Type' is reserved: receivers read fields of the message in headers that begin with 'txbox-'. Set the " +
      'field itself, or rename the header. Nothing was written.',
  )
  const long = await refusal(`txbox-\n${'x'.repeat(1_000_000)}`)
  expect(long).toContain("the header 'txbox- xxx")
  expect(long.length).toBeLessThan(600)
  for (const text of [await refusal('txbox-id'), long]) expect(text).not.toContain('correct horse')
})

test('an error of publish names an unknown field, in one line of a bounded length; one that is undefined is absent', async () => {
  const publisher = createOutbox({ database: target.detached() })
  const publish = (field: object): Promise<unknown> =>
    publisher.publish({} as never, { topic: 't', payload: 1, ...field }).catch((thrown: unknown) => thrown)
  expect(String(await publish({ deliverAfter: 5 }))).toContain("no field 'deliverAfter'")
  const message = String(await publish({ [`a\nb${'x'.repeat(1_000_000)}`]: 1 }))
  expect(message).toContain("no field 'a b")
  expect(message.length).toBeLessThan(600)
  expect(await publish({ deliverAfter: undefined })).not.toBeInstanceOf(InvalidMessageError)
})

test('createOutbox refuses wrong options when it is called', () => {
  const database = target.detached()
  for (const options of [
    {},
    { database: undefined },
    { database: {} },
    { database: 'postgres' },
    ...(target.engine === 'postgres' ? [] : [{ database, notify: true }]),
    { database, notify: 'yes' },
    { database, notfy: false },
    { database, lockKeys: 'yes' },
    { database, lockKeys: 1 },
    { database, lockkeys: true },
    null,
    undefined,
  ]) {
    expect(() => createOutbox(options as never), JSON.stringify(options)).toThrow(InvalidOptionError)
  }
  expect(createOutbox({ database, notify: false, lockKeys: true })).toBeTypeOf('object')
})

function mapValues(
  values: Record<string, unknown>,
  what: string,
  message: (value: unknown) => object,
): Record<string, object> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`${name} as ${what}`, message(value)]),
  )
}
