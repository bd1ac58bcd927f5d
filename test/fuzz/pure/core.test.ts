import * as fc from 'fast-check'
import { expect } from 'vitest'
import {
  InvalidMessageError,
  PermanentError,
  RetryLaterError,
  exponentialBackoff,
  isTxboxError,
  sha256OfBody,
} from '@txbox/core'
import {
  canonicalJson,
  decodeHeaders,
  idempotencyKey,
  inboxKey,
  nameOf,
  oneLine,
  reasonOf,
  shardOf,
} from '@txbox/core/internal'
import { transactOptions } from '@txbox/sql/transactions'
import {
  anything,
  hostileJson,
  hostileRecord,
  hostileText,
  SECRET,
} from '../../support/worlds/hostile-values.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import { expectPresentable, expectRefusal, outcomeOf, UNSEEN } from '../../support/worlds/refusals.ts'

const anyKey = fc.oneof(anything(), fc.array(fc.oneof(hostileText(), anything()), { maxLength: 40 }))

fuzz('a key is stored within its column, or refused', 1500, anyKey, (key) => {
  const outcome = outcomeOf(() => inboxKey(key, 'consumer'))
  if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
  const { text, stored } = outcome.result
  expect(Buffer.byteLength(stored)).toBeLessThanOrEqual(512)
  expect(stored.includes('\0')).toBe(false)
  expect(text).toBe(typeof key === 'string' ? key : JSON.stringify([...(key as string[])]))
  expect(idempotencyKey('consumer', outcome.result)).toMatch(/^[0-9a-f]{64}$/)
  expect(shardOf(stored)).toBeLessThan(16)
})

const textKey = fc.oneof(hostileText(), fc.array(hostileText(), { minLength: 1, maxLength: 3 }))

fuzz(
  'K2 K4 two keys are stored alike only when they are the same',
  1500,
  fc.tuple(textKey, textKey),
  (keys) => {
    const [one, other] = keys.map((key) => outcomeOf(() => inboxKey(key, 'c').stored))
    if ('thrown' in one! || 'thrown' in other!) return
    expect(one!.result === other!.result).toBe(JSON.stringify(keys[0]) === JSON.stringify(keys[1]))
  },
)

fuzz(
  'canonical JSON is a fixed point, or the value is refused',
  1500,
  fc.oneof(anything(), hostileJson()),
  (value) => {
    const outcome = outcomeOf(() => canonicalJson(value))
    if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
    expect(canonicalJson(JSON.parse(outcome.result))).toBe(outcome.result)
  },
)

fuzz('the hash of a body, or a refusal', 600, anything(), (body) => {
  const outcome = outcomeOf(() => sha256OfBody(body as string))
  if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
  expect(outcome.result).toMatch(/^[0-9a-f]{64}$/)
})

const limit = fc.integer({ min: 1, max: 3000 })
/** Text that shrinks as its white space does. */
const gaps = fc
  .array(fc.constantFrom('x', ' ', 'xxxxxxxx', '          ', '\0'), { maxLength: 400 })
  .map((all) => all.join(''))

fuzz(
  'oneLine keeps its limit and shows control characters',
  2000,
  fc.tuple(fc.oneof(hostileText(), gaps), fc.oneof(limit, fc.integer({ min: 1, max: 50 }))),
  ([text, most]) => {
    const line = oneLine(text, most)
    expect(line.length).toBeLessThanOrEqual(most)
    expect(UNSEEN.test(line)).toBe(false)
    expect(line.isWellFormed()).toBe(true)
  },
)

fuzz(
  'reasonOf never throws, keeps its limit and hides passwords',
  1500,
  fc.tuple(anything(), hostileText(), limit),
  (given) => {
    const [value, text, most] = given
    const url = `postgres://user:${SECRET}@host/${text}`
    const errors = [value, new Error(text, { cause: value }), new AggregateError([value, text], url), url]
    for (const error of errors) {
      const reason = reasonOf(error, most)
      expect(reason.length).toBeLessThanOrEqual(most)
      expect(UNSEEN.test(reason)).toBe(false)
    }
    expectPresentable(reasonOf(new Error(url)))
    expectPresentable(reasonOf(new Error(`${text} https://host/?a=1&token=${SECRET}&b=${text}`)))
  },
)

fuzz('nameOf never throws, and shows no content', 1000, anything(), (value) => {
  expectPresentable(nameOf(value))
})

fuzz('isTxboxError never throws', 500, anything(), (value) => {
  expect(isTxboxError(value)).toBe(false)
})

fuzz(
  'headers of a stored row are texts, or undecodable',
  1500,
  fc.oneof(
    hostileText(),
    hostileJson().map((v) => JSON.stringify(v)),
    fc.json(),
  ),
  (stored) => {
    const { headers, undecodable } = decodeHeaders(stored)
    expect(Object.getPrototypeOf(headers)).toBe(Object.prototype)
    for (const value of Object.values(headers)) expect(typeof value).toBe('string')
    if (undecodable === undefined) expect(JSON.parse(stored)).toEqual(headers)
    else expectPresentable(undecodable)
  },
)

const backoff = hostileRecord({
  attempts: fc.integer({ min: -1, max: 1001 }),
  minMs: fc.double(),
  maxMs: fc.double(),
})

fuzz(
  'a back-off has pauses within its bounds, or its options are refused',
  1000,
  fc.oneof(backoff, anything()),
  (options) => {
    const outcome = outcomeOf(() => exponentialBackoff(options as object))
    if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
    const policy = outcome.result
    for (const attempt of [1, 2, policy.attempts, policy.attempts * 1000]) {
      for (const random of [0, 0.999_999]) {
        const ms = policy.delayMs(attempt, () => random)
        expect(ms > 0 && Number.isFinite(ms)).toBe(true)
      }
    }
  },
)

const later = fc.oneof(
  anything(),
  hostileRecord({ retryAfterMs: fc.double() }),
  fc.record({ retryAfterMs: fc.double(), message: hostileText() }),
)

fuzz('RetryLaterError takes a pause, or is refused', 1000, later, (options) => {
  const outcome = outcomeOf(() => new RetryLaterError(options as object))
  if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
  expect(outcome.result.retryAfterMs).toBeGreaterThanOrEqual(0)
})

fuzz(
  'errors for users to throw take any text and any cause',
  500,
  fc.tuple(hostileText(), anything()),
  ([text, cause]) => {
    const error = new PermanentError(text, { cause })
    expect([error.code, isTxboxError(error)]).toEqual(['TXBOX_PERMANENT', true])
    expect(reasonOf(error, 300).length).toBeLessThanOrEqual(300)
    expect(new InvalidMessageError(text).message).toBe(text)
  },
)

fuzz(
  'the options of transact',
  500,
  fc.oneof(anything(), hostileRecord({ isolation: fc.constantFrom('serializable', 'none') })),
  (options) => {
    const outcome = outcomeOf(() => transactOptions(options as object))
    if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
  },
)
