import { describe, expect, test } from 'vitest'
import { InvalidMessageError, fingerprint, sha256OfBody, type NewMessage } from '@txbox/core'
import { canonicalJson, inboxKey, nameOf } from '@txbox/core/internal'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'

/** Content of a message that would fill a log, or forge lines in it. */
const HOSTILE = `\r\n2026-01-01 ERROR \u001B[31m${'x'.repeat(1_000_000)}`
const constructed: unknown = JSON.parse(JSON.stringify({ constructor: { name: HOSTILE } }))

function expectBounded(text: string): void {
  expect(text.length).toBeLessThan(700)
  // oxlint-disable-next-line no-control-regex -- control characters are searched for
  expect(text).not.toMatch(/[\u0000-\u001F\u007F-\u009F\u2028\u2029]/)
}

describe('text from a message in the message of an error is bounded, in one line and without control characters', () => {
  const refusals: [string, () => unknown][] = [
    ['a key', () => inboxKey(constructed, 'c')],
    ['a part of a key', () => inboxKey(['a', constructed], 'c')],
    ['a body', () => sha256OfBody(constructed as never)],
    ['a name in a payload', () => canonicalJson({ [HOSTILE]: Number.NaN })],
    ['a deep payload', () => canonicalJson(JSON.parse(`${'{"\\n":'.repeat(600)}1${'}'.repeat(600)}`))],
    ['a value that is no JSON', () => canonicalJson({ a: 10n ** 100_000n })],
    ['a payload without fields', () => fingerprint({ include: ['/a'] })({ id: '1', payload: HOSTILE })],
  ]
  test.for(refusals)('%s', ([, refuse]) => {
    let refusal: unknown
    try {
      refuse()
    } catch (error) {
      refusal = error
    }
    expect(refusal).toBeInstanceOf(InvalidMessageError)
    expectBounded(String(refusal))
  })

  test.for<[string, object]>([
    ['a field that there is not', { [HOSTILE]: 1 }],
    ['a header', { headers: { [HOSTILE]: 1 } }],
    ['a topic', { topic: constructed }],
    ['a content type', { contentType: `text/\r\n${'x'.repeat(200)}`, payload: {} }],
    [
      'an error of toJSON',
      {
        payload: {
          toJSON() {
            throw new Error(HOSTILE)
          },
        },
      },
    ],
  ])('%s of a message to publish', async ([, field]) => {
    const message = { topic: 't', payload: 1, ...field } as NewMessage
    const published = createOutbox({ database: postgres() }).publish({} as never, message)
    const error: unknown = await published.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(InvalidMessageError)
    expectBounded(String(error))
  })

  test('a correlation id, with its key', async () => {
    const inbox = createInbox({ database: postgres(), consumer: 'c' })
    const processed = inbox.process({} as never, { id: HOSTILE, correlationId: HOSTILE }, () => 1)
    const error: unknown = await processed.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(InvalidMessageError)
    expectBounded(String(error))
  })
})

describe('nameOf', () => {
  test('names the class of an object, and not a class that a message claims', () => {
    expect(nameOf(new Map())).toBe('an object of class Map')
    expect(nameOf(constructed)).toBe('an object')
    expect(nameOf(Object.create(null))).toBe('an object')
  })

  test('does not throw', () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    expect(nameOf(proxy)).toBe('an object')
  })
})
