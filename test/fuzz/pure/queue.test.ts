import * as fc from 'fast-check'
import { expect } from 'vitest'
import type { TxboxErrorCode } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { createQueue } from '@txbox/queue'
import { deduplicationRules, sendIdentity } from '../../../packages/core/src/sending/deduplication.ts'
import { readReceipt, receiptText } from '../../../packages/queue/src/receipts.ts'
import { checkReceiveOptions } from '../../../packages/queue/src/receive-options.ts'
import { receivedMessage } from '../../../packages/queue/src/received-message.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import {
  anything,
  hostileJson,
  hostileRecord,
  hostileText,
  withOwnMembers,
} from '../../support/worlds/hostile-values.ts'
import { expectPresentable, expectRefusal, outcomeOf, outcomeOfAsync } from '../../support/worlds/refusals.ts'

const queueName = fc.oneof(
  fc.constantFrom('q', 'payments'),
  hostileText().map((text) => text.slice(0, 80) || 'q'),
)
const receipt = fc.record({
  place: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
  receipt: fc.uuid(),
  ordered: fc.boolean(),
})

fuzz('a receipt is read as it was written', 1500, fc.tuple(queueName, receipt), ([queue, written]) => {
  const text = receiptText(queue, written)
  expect(text).toMatch(/^[\w-]{1,1024}$/)
  expect(readReceipt('delete', queue, { receipt: text })).toEqual({ topic: queue, ...written })
})

/** The fields of a receipt, some of them hostile, and as a text that a program could have made of them. */
const forged = fc
  .tuple(
    fc.oneof({ weight: 6, arbitrary: fc.constant<unknown>(1) }, hostileJson()),
    fc.oneof({ weight: 6, arbitrary: fc.constant<unknown>('q') }, hostileJson()),
    fc.oneof(
      { weight: 3, arbitrary: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String) },
      fc.constantFrom('0', '-1', '1e3', ' 1', '01', '9223372036854775808', '1; drop table txbox.queue'),
      fc.constantFrom('9223372036854775807', '9223372036854775808', '9999999999999999999'),
      hostileJson(),
    ),
    fc.oneof({ weight: 3, arbitrary: fc.uuid() }, hostileJson()),
    fc.oneof({ weight: 3, arbitrary: fc.boolean() }, hostileJson()),
    fc.oneof({ weight: 4, arbitrary: fc.constant<unknown[]>([]) }, fc.array(hostileJson(), { maxLength: 1 })),
  )
  .map(([form, queue, place, uuid, ordered, more]) => [form, queue, place, uuid, ordered].concat(more))
const forgedText = fc
  .tuple(
    forged,
    // Most texts are of the form that txbox writes, so that their fields are looked at.
    fc.constantFrom('', '', '', '', '', ' ', '\n', '='),
    fc.constantFrom<BufferEncoding>('base64url', 'base64url', 'base64url', 'base64', 'utf8'),
  )
  .map(([fields, after, encoding]) => {
    const json = JSON.stringify(fields) + (after === '=' ? '' : after)
    return encoding === 'utf8' ? json : Buffer.from(json).toString(encoding) + (after === '=' ? after : '')
  })
/** A receipt with a character that was changed, put in or left out. */
const changedText = fc
  .tuple(receipt, fc.nat(), fc.string({ unit: 'binary', maxLength: 2 }), fc.nat(1))
  .map(([written, seed, put, gone]) => {
    const text = receiptText('q', written)
    const at = seed % text.length
    return text.slice(0, at) + put + text.slice(at + gone)
  })

fuzz(
  'Q9 a receipt that was forged or changed is read as what its text says, or refused',
  4000,
  fc.oneof(
    fc.oneof(forgedText, changedText, hostileText()).map((text) => ({ receipt: text })),
    hostileRecord({ receipt: anything() }),
    anything(),
  ),
  (received) => {
    const outcome = outcomeOf(() => readReceipt('delete', 'q', received))
    if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_RECEIPT_EXPIRED')
    const { receipt: text } = received as { receipt: string }
    expect(receiptText('q', outcome.result), 'one text for each receipt').toBe(text)
    expect(outcome.result.place > 0n && outcome.result.place < 2n ** 63n).toBe(true)
    expect(outcome.result.receipt).toMatch(/^[0-9a-f-]{36}$/)
  },
)

const number = fc.oneof(fc.double(), fc.integer(), fc.integer({ min: 1, max: 100_000 }))
const receiveOptions = hostileRecord({
  limit: number,
  waitMs: number,
  visibilityTimeoutMs: number,
  attemptId: hostileText(),
  remove: fc.boolean(),
  signal: fc.constant(new AbortController().signal),
})

fuzz(
  'the options of receive are within their bounds, or refused',
  1500,
  fc.oneof({ weight: 4, arbitrary: receiveOptions }, anything()),
  (options) => {
    const outcome = outcomeOf(() => checkReceiveOptions(options as object, 30_000))
    if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
    const { limit, waitMs, visibilityTimeoutMs, attempt, remove } = outcome.result
    expect(Number.isInteger(limit) && limit >= 1 && limit <= 1000).toBe(true)
    expect(waitMs >= 0 && waitMs <= 20_000).toBe(true)
    expect(visibilityTimeoutMs >= 1000 && visibilityTimeoutMs <= 43_200_000).toBe(true)
    if (attempt !== undefined) expect(attempt.id).toMatch(/^[!-~]{1,128}$/)
    expect(attempt !== undefined && remove).toBe(false)
  },
)

const stored = fc.record({
  id: hostileText(),
  topic: fc.constant('q'),
  key: fc.option(hostileText(), { nil: undefined }),
  type: fc.option(hostileText(), { nil: undefined }),
  correlationId: fc.option(hostileText(), { nil: undefined }),
  contentType: fc.oneof(
    hostileText(),
    fc.constantFrom('application/json', 'text/plain', 'text/plain; charset=latin1', 'a/b+json'),
  ),
  payload: fc.oneof(
    fc.uint8Array(),
    hostileJson().map((value) => Buffer.from(JSON.stringify(value))),
    hostileText().map((text) => Buffer.from(text)),
  ),
  headers: fc.array(fc.tuple(hostileText(), hostileText()), { maxLength: 3 }).map(withOwnMembers),
  undecodable: fc.option(
    hostileText().map((text) => text.slice(0, 200)),
    { nil: undefined },
  ),
  receives: fc.nat(),
  place: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
  receipt: fc.uuid(),
  ordered: fc.boolean(),
  suspect: fc.boolean(),
  createdAt: fc.date({ noInvalidDate: false }),
  visibleAt: fc.date({ noInvalidDate: false }),
})

fuzz('a stored message is received, whatever its row holds', 2000, stored, (row) => {
  const received = receivedMessage('q', row as unknown as QueueMessage)
  expect(received.message.id).toBe(row.id)
  expect(readReceipt('delete', 'q', received).place).toBe(row.place)
  if (received.undecodable === undefined) return
  expect(received.message.payload).toBe(row.payload)
  if (row.undecodable === undefined) expectPresentable(received.undecodable.message)
})

/** Without a transaction, a valid message reaches the check of the transaction. */
const REFUSALS: readonly TxboxErrorCode[] = ['TXBOX_INVALID_MESSAGE', 'TXBOX_UNSUPPORTED_TRANSACTION']
const payload = fc.oneof(hostileJson(), fc.uint8Array(), hostileText())
const deduplicationId = fc.oneof(
  hostileText(),
  fc.string({ minLength: 1, maxLength: 128 }),
  fc.constantFrom('0'.repeat(64), 'f'.repeat(64), '§', '@publish'),
)
const sent = hostileRecord({
  key: hostileText(),
  payload,
  id: hostileText(),
  deduplicationId,
  deliverAt: fc.date({ noInvalidDate: false }),
  headers: fc.array(fc.tuple(hostileText(), hostileText()), { maxLength: 3 }).map(withOwnMembers),
})

const senders = [
  createQueue({ database: postgres(), name: 'q' }),
  createQueue({ database: postgres(), name: 'q', deduplication: {} }),
  createQueue({ database: postgres(), name: 'q', deduplication: { contentBased: true, scope: 'key' } }),
]
const publishers = [
  createOutbox({ database: postgres(), deduplication: {} }),
  createOutbox({ database: postgres(), deduplication: { contentBased: true } }),
]

fuzz(
  'send and publish refuse deduplicated messages that they cannot store',
  1500,
  fc.oneof(sent, fc.array(fc.oneof(sent, anything()), { maxLength: 3 }), anything()),
  async (message) => {
    const withTopic = withTopics(message)
    for (const call of [
      ...senders.map((queue) => () => queue.send({} as never, message as never)),
      ...publishers.map((outbox) => () => outbox.publish({} as never, withTopic as never)),
    ]) {
      const outcome = await outcomeOfAsync<unknown>(call)
      if ('thrown' in outcome) expectRefusal(outcome.thrown, ...REFUSALS)
    }
  },
)

/** Plain objects get a topic, alone or in a list; everything else stays as it is. */
function withTopics(message: unknown): unknown {
  const list = outcomeOf(() => Array.isArray(message) && message.map((one: unknown) => withTopicIn(one)))
  return 'result' in list && list.result !== false ? list.result : withTopicIn(message)
}

function withTopicIn(message: unknown): unknown {
  if (typeof message !== 'object' || message === null) return message
  const outcome = outcomeOf(() => Object.getPrototypeOf(message) as unknown)
  if (!('result' in outcome) || outcome.result !== Object.prototype) return message
  const copied = outcomeOf(() => ({ topic: 't', ...message }))
  return 'result' in copied ? copied.result : message
}

const rules = fc.record({
  contentBased: fc.boolean(),
  scope: fc.constantFrom('queue' as const, 'key' as const),
  contentMatch: fc.constantFrom('content' as const, 'id' as const),
})
const identified = fc.record({
  topic: hostileText(),
  key: fc.option(hostileText(), { nil: undefined }),
  deduplicationId: fc.oneof({ weight: 4, arbitrary: deduplicationId }, anything()),
})

fuzz(
  'two sends have one place in the history only if topic, scope and id are the same',
  3000,
  fc.tuple(rules, identified, identified, fc.boolean(), fc.boolean()),
  ([options, one, other, sameTopic, sameId]) => {
    const second = {
      ...other,
      ...(sameTopic && { topic: one.topic }),
      ...(sameId && { deduplicationId: one.deduplicationId }),
    }
    const checked = deduplicationRules('fuzz', options)
    const [a, b] = [one, second].map((message) =>
      outcomeOf(() => {
        const history = { where: 'publish', consumer: '@publish' } as const
        return sendIdentity(history, checked, message, Buffer.from('{}'))
      }),
    )
    for (const outcome of [a!, b!]) {
      if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
      expect(Buffer.byteLength(outcome.result.key)).toBeLessThanOrEqual(512)
    }
    if (!('result' in a!) || !('result' in b!)) return
    const scopeOf = (message: typeof one): string | undefined =>
      options.scope === 'key' ? message.key : undefined
    const isSame =
      one.topic === second.topic && scopeOf(one) === scopeOf(second) && a.result.id === b.result.id
    expect(a.result.key === b.result.key).toBe(isSame)
  },
)
