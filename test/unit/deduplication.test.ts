import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { InvalidMessageError, InvalidOptionError, days } from '@txbox/core'
import { deduplicationRules, inboxKey, sendIdentity, type SendIdentity } from '@txbox/core/internal'

const DEFAULTS = deduplicationRules('createOutbox', {})
const HISTORY = { where: 'publish', consumer: '@publish' } as const
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

function identity(
  options: Parameters<typeof deduplicationRules>[1],
  deduplicationId?: unknown,
  { topic = 't', key, payload = 'p' }: { topic?: string; key?: string; payload?: string } = {},
): SendIdentity {
  const message = { topic, key, deduplicationId }
  return sendIdentity(HISTORY, deduplicationRules('createOutbox', options), message, Buffer.from(payload))
}
/** As the table has the hash of a content, or an id that spells one: after all other ids. */
const content = (text: string): string => `§${sha256(text)}`
const stored = (...parts: string[]): string => inboxKey(parts, '@publish').stored

describe('options', () => {
  test('F4 the window is five minutes unless set; ids count for the topic, and content is not looked at', () => {
    expect(DEFAULTS).toEqual({
      windowMs: 300_000,
      contentBased: false,
      scope: 'queue',
      contentMatch: 'content',
    })
  })

  test.for([
    { windowMs: 999 },
    { windowMs: 15 * 86_400_000 + 1 },
    { windowMs: Number.NaN },
    { windowMs: '300000' },
    { contentBased: 'yes' },
    { scope: 'topic' },
    { contentMatch: 'body' },
    { window: 5000 },
    true,
    [],
    null,
  ])('refused when the outbox is created: %j', (options) => {
    expect(() => deduplicationRules('createOutbox', options as never)).toThrow(InvalidOptionError)
  })

  test.for([{ windowMs: 1000 }, { windowMs: days(15) }, { scope: 'key' }, { contentMatch: 'id' }] as const)(
    'taken: %j',
    (options) => {
      expect(deduplicationRules('createOutbox', options)).toEqual({ ...DEFAULTS, ...options })
    },
  )
})

describe('ids', () => {
  const visible = Array.from({ length: 94 }, (_, n) => String.fromCodePoint(0x21 + n)).join('')

  test.for(['x', '!', '~', visible, 'x'.repeat(128)])('F1 an id that is taken: %s', (id) => {
    expect(identity({}, id)).toEqual({ id, key: stored('t', id), mustBeFree: undefined })
  })

  test.for([
    '',
    'x'.repeat(129),
    'a b',
    ' a',
    'a ',
    'a\n',
    'a\tb',
    'a\0',
    'ä',
    'a\u007f',
    '漢',
    '\ud800',
    7,
    {},
    ['a'],
    false,
  ])('F1 an id that is refused: %j', (id) => {
    expect(() => identity({}, id)).toThrow(InvalidMessageError)
    expect(() => identity({ contentBased: true }, id)).toThrow(InvalidMessageError)
  })

  test('F1 the error does not show the id', () => {
    expect(() => identity({}, 'secret id')).toThrow(/^(?!.*secret)/)
  })

  test.for([undefined, null])(
    'F7 %s is not an id: the message is refused, unless its content identifies it',
    (missing) => {
      expect(() => identity({}, missing)).toThrow(InvalidMessageError)
      expect(identity({ contentBased: true }, missing).id).toBe(sha256('p'))
    },
  )
})

describe('the content and the scope that identify a send', () => {
  test('F8 the content is the bytes of the payload', () => {
    const options = { contentBased: true }
    const ids = ['{"a":1}', '{"a": 1}', ''].map((payload) => identity(options, undefined, { payload }).id)
    expect(ids).toEqual(['{"a":1}', '{"a": 1}', ''].map(sha256))
  })

  test('F10 a message with an id is compared by its content only where both options ask for it', () => {
    const both = identity({ contentBased: true }, 'x')
    expect(both).toEqual({ id: 'x', key: stored('t', 'x'), mustBeFree: stored('t', content('p')) })
    expect(identity({ contentBased: true, contentMatch: 'id' }, 'x').mustBeFree).toBeUndefined()
    expect(identity({ contentMatch: 'content' }, 'x').mustBeFree).toBeUndefined()
    expect(both.key < both.mustBeFree!).toBe(true)
    // The id is the content's own: there is nothing else to look for.
    expect(identity({ contentBased: true }, sha256('p'))).toEqual(identity({ contentBased: true }))
  })

  test('F11 the scope is the topic, or the topic and the key; scopes cannot be mistaken for one another', () => {
    const inKey = { scope: 'key', contentBased: true } as const
    expect(identity({}, 'x', { key: 'k' }).key).toBe(stored('t', 'x'))
    expect(identity(inKey, 'x', { key: 'k' })).toEqual({
      id: 'x',
      key: stored('t', 'k', 'x'),
      mustBeFree: stored('t', 'k', content('p')),
    })
    expect(identity(inKey, 'x').key).toBe(stored('t', 'x'))
    const ambiguous = [
      identity(inKey, 'c', { topic: 'a', key: 'b' }),
      identity(inKey, 'c', { topic: 'a","b' }),
      identity(inKey, 'b","c', { topic: 'a' }),
      identity(inKey, 'c', { topic: 'a"', key: ',"b' }),
    ]
    expect(new Set(ambiguous.map(({ key }) => key)).size).toBe(4)
  })

  test('K3 a topic, a key and an id of the greatest length fit the column', () => {
    const long = { topic: 'ü'.repeat(255), key: 'ä'.repeat(255) }
    const { key } = identity({ scope: 'key' }, 'x'.repeat(128), long)
    expect(Buffer.byteLength(key)).toBeLessThanOrEqual(512)
    expect(identity({ scope: 'key' }, 'y'.repeat(128), long).key).not.toBe(key)
  })
})
