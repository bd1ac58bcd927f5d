import { expect, test } from 'vitest'
import { InvalidMessageError, InvalidOptionError, RetryLaterError, fingerprint, messageId } from '@txbox/core'
import {
  canonicalJson,
  decodeHeaders,
  encodeMessages,
  inboxKey,
  nameOf,
  oneLine,
  reasonOf,
} from '@txbox/core/internal'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { stateMachine } from '@txbox/versioning'
import { txboxHere } from '../support/subjects/txbox-in-process.ts'

const ESCAPE = '\u001B]0;owned\u0007'
const outbox = createOutbox({ database: postgres() })

class Named {
  readonly id = 1
}
Object.defineProperty(Named, 'name', { value: 7 })

class Empty {
  readonly topic = undefined
}

test('a class whose static name is not a string does not break the text of an error', () => {
  expect(nameOf(new Named())).toBe('an object')
  expect(reasonOf(new Named())).toBe('an object')
})

test('oneLine keeps its limit when white space has shrunk to it', () => {
  expect(oneLine(`xxxxx${' '.repeat(20)}`, 5)).toBe('xxxx…')
})

test('headers of a row are an object of strings, or undecodable', () => {
  for (const text of ['null', '7', '[]', '{"a":1}', '{"a":null}', '{"a":{}}', '{']) {
    expect(decodeHeaders(text), text).toMatchObject({ headers: {}, undecodable: expect.any(String) })
  }
  expect(decodeHeaders('{"__proto__":"x"}').undecodable).toBeUndefined()
})

test('a list of parts is the key that was checked, whatever its toJSON says', () => {
  const key = Object.assign(['a', 'b'], { toJSON: () => 'other' })
  expect(inboxKey(key, 'c')).toEqual(inboxKey(['a', 'b'], 'c'))
})

test('K5 an id that is a list is not a key of a message with a source', () => {
  const draw = messageId() as (message: unknown) => unknown
  expect(() => draw({ id: ['source', 'x'] })).toThrow(InvalidMessageError)
  expect(draw({ source: 'source', id: 'x' })).toEqual(['source', 'x'])
})

test('a pointer with a lone surrogate is an invalid option', () => {
  expect(() => fingerprint({ include: ['/\uD800'] })).toThrow(InvalidOptionError)
})

test('a toJSON that throws, and an object that only looks like a Date, have no fingerprint', () => {
  const cause = new Error('broken')
  const throwing = {
    toJSON() {
      throw cause
    },
  }
  expect(() => canonicalJson(throwing)).toThrow(
    expect.objectContaining({ code: 'TXBOX_INVALID_MESSAGE', cause }),
  )
  expect(() => canonicalJson(Object.create(Date.prototype))).toThrow(InvalidMessageError)
})

test.for([[null], [5000], [{ retryAfterMs: 'x'.repeat(100_000) }], [{ retryAfterMs: Object.create(null) }]])(
  'RetryLaterError refuses %j in a short text',
  ([options]) => {
    const make = (): unknown => new RetryLaterError(options as never)
    expect(make).toThrow(InvalidOptionError)
    expect(make).toThrow(/^.{1,200}$/)
  },
)

test.for<[string, unknown]>([
  ['a Map', new Map([['a', 'b']])],
  ['the Headers of fetch', new Headers({ a: 'b' })],
])('headers that are %s are refused, not lost', async ([, headers]) => {
  const message = { topic: 't', payload: 1, headers: headers as never }
  await expect(outbox.publish({} as never, message)).rejects.toThrow(InvalidMessageError)
})

test.for<[string, unknown]>([
  ['Promise', Promise.resolve({ cents: 1 })],
  ['Map', new Map([['a', 1]])],
  ['Prices', new (class Prices extends Map<string, number> {})()],
  ['Set', new Set([1])],
  ['ArrayBuffer', new ArrayBuffer(8)],
  ['DataView', new DataView(new ArrayBuffer(8))],
  ['Error', Object.assign(new Error('x'), { code: 'E' })],
  [
    'Query',
    new (class Query {
      readonly text = 'select'
      then(): void {}
    })(),
  ],
])('a payload of class %s, whose content JSON would lose, is refused', async ([name, payload]) => {
  const publishing = outbox.publish({} as never, { topic: 't', payload })
  await expect(publishing).rejects.toThrow(InvalidMessageError)
  await expect(publishing).rejects.toThrow(
    `publish: the payload must be a value that JSON can express, not an object of class ${name}. Nothing was written.`,
  )
})

test.for<[string, unknown]>([
  ['an object without members', {}],
  ['an object without a prototype', Object.create(null)],
  ['an object of a class without members', new Empty()],
  ['a Map with a toJSON', Object.assign(new Map(), { toJSON: () => ({}) })],
  ['an Error with a toJSON', Object.assign(new Error('x'), { toJSON: () => ({}) })],
])('a payload that is %s is itself', ([, payload]) => {
  const [stored] = encodeMessages({ where: 'publish' }, [{ topic: 't', payload }])
  expect(String(stored!.payload)).toBe('{}')
})

test('a list with a missing element is refused', async () => {
  const messages = Object.assign([{ topic: 't', payload: 1 }], { length: 2 })
  await expect(outbox.publish({} as never, messages)).rejects.toThrow(InvalidMessageError)
  const inbox = createInbox({ database: postgres(), consumer: 'c' })
  const batch = inbox.processBatch({} as never, Object.assign([{ id: '1' }], { length: 2 }), () => 1)
  await expect(batch).rejects.toThrow(InvalidMessageError)
})

test('a list that is far too long is refused before its elements are looked at', async () => {
  const messages = Object.assign([], { length: 4_000_000_000 }) as never
  await expect(outbox.publish({} as never, messages)).rejects.toThrow(InvalidMessageError)
})

test('N2 a delivery that is not JSON is refused in one line, without its body', () => {
  const content = Buffer.from('correct-horse-battery')
  const properties = { messageId: ESCAPE, contentType: 'application/json' }
  let refusal: unknown
  try {
    fromRabbitmq({ content, properties })
  } catch (error) {
    refusal = error
  }
  expect(refusal).toBeInstanceOf(InvalidMessageError)
  expect(String(refusal)).not.toContain('\u001B')
  expect(reasonOf(refusal)).not.toContain('correct')
})

test('a state machine names an invalid state in a short text', () => {
  const wrong = { a: [`${ESCAPE}${'x'.repeat(100_000)}`] }
  expect(() => stateMachine(wrong as never)).toThrow(/^\P{Cc}{1,1000}$/u)
})

test.for<[string[]]>([
  [['migrate', ESCAPE]],
  [['status', `--${ESCAPE}`]],
  [['gc', '--batch-size', ESCAPE.repeat(1000)]],
])('N2 control characters of an argument are shown escaped: %j', async ([args]) => {
  const { code, stderr } = await txboxHere(args)
  expect(code).toBe(2)
  expect(stderr).not.toContain('\u001B')
  expect(stderr.length).toBeLessThan(1200)
})

test('N2 a driver does not write a parameter of the address to the terminal', async () => {
  const url = `mysql://root@127.0.0.1:9/shop?${encodeURIComponent(ESCAPE)}=1`
  const { code, stderr } = await txboxHere(['status'], url)
  expect([code, stderr]).toEqual([2, expect.stringContaining('which no driver knows')])
  expect(stderr).not.toContain('\u001B')
})
