import * as fc from 'fast-check'
import { expect } from 'vitest'
import { createBatcher, createConsumer, type InboxMessage } from '@txbox/consumer'
import { redisDedup } from '@txbox/redis'
import { deadLetterMessage } from '../../../packages/consumer/src/settle/dead-letter-message.ts'
import type { HeldDelivery } from '../../../packages/consumer/src/receive/held-delivery.ts'
import { BrokerDelivery } from '../../../packages/rabbitmq/src/receive/broker-delivery.ts'
import { DeliveryCounts } from '../../../packages/rabbitmq/src/receive/delivery-counts.ts'
import { DeliveryReader } from '../../../packages/rabbitmq/src/receive/delivery-reader.ts'
import { outgoingMessage } from '../../../packages/rabbitmq/src/publish/outgoing-message.ts'
import { claimKey } from '../../../packages/redis/src/dedup/claim-key.ts'
import { fuzz } from '../../support/worlds/fuzz.ts'
import {
  anything,
  hostileJson,
  hostileRecord,
  hostileText,
  withOwnMembers,
} from '../../support/worlds/hostile-values.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { expectPresentable, expectRefusal, outcomeOf, outcomeOfAsync } from '../../support/worlds/refusals.ts'
import { until } from '../../support/worlds/until.ts'

/** A field of a header table, as amqplib decodes it. */
const field = fc.oneof(
  hostileText(),
  fc.double(),
  fc.bigInt(),
  fc.boolean(),
  fc.constantFrom(null, -1, 2 ** 53, 1e308, '7', 'x'),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
)
const headers = fc
  .array(
    fc.tuple(
      fc.oneof(
        fc.constantFrom('txbox-key', 'x-delivery-count', 'x-acquired-count', 'x-death', '__proto__'),
        hostileText(),
      ),
      field,
    ),
    { maxLength: 4 },
  )
  .map(withOwnMembers)
const raw = fc.record({
  content: fc.oneof(
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    hostileJson().map((value) => Buffer.from(JSON.stringify(value))),
  ),
  fields: fc.record({ deliveryTag: fc.nat(), redelivered: fc.boolean() }),
  properties: hostileRecord({
    messageId: hostileText(),
    correlationId: hostileText(),
    type: hostileText(),
    contentType: hostileText(),
    contentEncoding: hostileText(),
    timestamp: fc.oneof(fc.double(), fc.bigInt()),
    headers,
  }),
})

fuzz('a delivery of any headers has a key, a count and a message', 2500, raw, async (given) => {
  const settled: string[] = []
  // What the client hands over has been decoded: a getter that throws is not among it.
  const isQuorum = [true, false, undefined][given.fields.deliveryTag % 3]
  const counts = new DeliveryCounts({ queue: `q${given.fields.deliveryTag}`, broker: 'fuzz', isQuorum })
  counts.hasAcquiredCounts = given.fields.deliveryTag % 2 === 0
  const reader = new DeliveryReader({ id: undefined, key: undefined }, counts)
  const outcome = outcomeOf(() => {
    const contents = reader.read(given as never)
    return new BrokerDelivery(given as never, contents, {
      settle: async (_, how) => void settled.push(how),
      waitsElsewhere: async () => undefined,
      deadLetters: undefined,
    })
  })
  if ('thrown' in outcome) return expectRefusal(outcome.thrown)
  const delivery = outcome.result
  expect(Number.isSafeInteger(delivery.deliveries) && delivery.deliveries >= 1).toBe(true)
  if (delivery.key !== undefined) expect(delivery.key).not.toBe('')
  expect(typeof delivery.message.id).toBe('string')
  for (const text of Object.values(delivery.message.headers ?? {})) expect(typeof text).toBe('string')
  if (delivery.undecodable !== undefined) expectRefusal(delivery.undecodable, 'TXBOX_INVALID_MESSAGE')
  await Promise.all([delivery.accept(), delivery.reject(), delivery.retry({ counted: true })])
  expect(settled).toEqual(['ack'])
})

const message = hostileRecord({
  id: hostileText(),
  type: hostileText(),
  correlationId: hostileText(),
  headers: fc.array(fc.tuple(hostileText(), hostileText()), { maxLength: 3 }).map(withOwnMembers),
  time: fc.date({ noInvalidDate: false }),
  payload: fc.oneof(anything(), hostileJson()),
})

fuzz(
  'a dead letter is made of any message and any error, and fits AMQP or is refused',
  2000,
  fc.tuple(message, anything(), fc.option(hostileText(), { nil: undefined }), fc.nat()),
  ([given, error, key, deliveries]) => {
    const identity = { source: undefined, id: 'stand-in' }
    const slot = { message: given, identity, source: 'rabbitmq q', deliveries, delivery: { key } }
    const outcome = outcomeOf(() => deadLetterMessage(slot as unknown as HeldDelivery, 'dead', error))
    if ('thrown' in outcome) return expectRefusal(outcome.thrown)
    const letter = outcome.result
    expect(letter.id).not.toBe('')
    expect(Number.isNaN(letter.createdAt.getTime())).toBe(false)
    expect(letter.payload).toBeInstanceOf(Uint8Array)
    expect(letter.headers['txbox-error']!.length).toBeLessThanOrEqual(1000)
    const sent = outcomeOf(() => outgoingMessage(letter, 1_000_000))
    if ('thrown' in sent) expectRefusal(sent.thrown, 'TXBOX_PERMANENT', 'TXBOX_INVALID_MESSAGE')
  },
)

fuzz(
  'whatever a message holds and its handler returns or throws, each delivery is accepted or rejected',
  150,
  fc.tuple(
    fc.array(
      fc.record({
        key: fc.option(
          hostileText().map((text) => text || 'k'),
          { nil: undefined },
        ),
        payload: anything(),
        undecodable: fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, anything()),
        answer: anything(),
        throws: fc.boolean(),
      }),
      { minLength: 1, maxLength: 4 },
    ),
    fc.boolean(),
  ),
  async ([messages, isBatch]) => {
    const source = new MemorySource()
    const answers = new Map(messages.map((one, n) => [`m${n}`, one]))
    const answer = ({ id }: InboxMessage): unknown => {
      const one = answers.get(id)!
      if (one.throws) throw one.answer
      return one.answer
    }
    const options = {
      source,
      name: 'c',
      logger: false as const,
      retry: { attempts: 2, delayMs: () => 1 },
      localDelayMs: 0,
    }
    const consumer = isBatch
      ? createConsumer({
          ...options,
          batch: { maxSize: 2 },
          handler: (batch) => batch.map((one) => answer(one))[0],
        })
      : createConsumer({ ...options, handler: answer })
    const errors: unknown[] = []
    consumer.on('error', ({ error }) => void errors.push(error))
    for (const [id, { key, payload, undecodable }] of answers) {
      source.send(id, { payload, undecodable, ...(key !== undefined && { key }) })
    }
    await consumer.start()
    await until(
      async () => source.left.length === 0,
      () => `these are settled: ${source.left.join(', ')}`,
      10_000,
    )
    await consumer.stop({ timeoutMs: 1000 })
    for (const id of answers.keys()) {
      expect(
        source.how(id).filter((how) => how !== 'retry'),
        id,
      ).toHaveLength(1)
    }
    expect(consumer.figures).toEqual({ inHand: 0, running: 0, waiting: 0, retrying: 0 })
  },
)

fuzz(
  'a batcher processes each item once, or refuses it',
  400,
  fc.tuple(
    fc.array(fc.oneof(fc.nat(3), anything()), { maxLength: 20 }),
    fc.integer({ min: 1, max: 4 }),
    fc.boolean(),
  ),
  async ([channels, maxSize, fails]) => {
    const processed: number[] = []
    const batcher = createBatcher<{ readonly n: number; readonly channel: unknown }>({
      process: (batch) => {
        processed.push(...batch.map(({ n }) => n))
        if (fails) throw new Error('no')
      },
      maxSize,
      capacity: 5,
      channels: 3,
      channelOf: ({ channel }) => channel as number,
      logger: false,
    })
    const added: number[] = []
    for (const [n, channel] of channels.entries()) {
      const outcome = await outcomeOfAsync(() => batcher.added({ n, channel }))
      if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
      else added.push(n)
      if (channel === 0 || channel === 1 || channel === 2) expect('thrown' in outcome).toBe(false)
    }
    await batcher.close()
    expect(processed.toSorted((a, b) => a - b)).toEqual(added)
  },
)

const name = hostileText().map((text) => text.slice(0, 100))

fuzz(
  'two claims in Redis have one key only if consumer and key are the same',
  2000,
  fc.tuple(name, hostileText(), name, hostileText(), fc.boolean()),
  ([consumer, key, other, otherKey, isShifted]) => {
    // A boundary between the two parts that moves by a character.
    const [second, secondKey] = isShifted ? [consumer + key.slice(0, 1), key.slice(1)] : [other, otherKey]
    const [a, b] = [
      outcomeOf(() => claimKey('txbox:', consumer, key)),
      outcomeOf(() => claimKey('txbox:', second, secondKey)),
    ]
    for (const outcome of [a, b]) {
      if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
      expect(Buffer.byteLength(outcome.result)).toBeLessThan(2000)
    }
    if (!('result' in a) || !('result' in b)) return
    expect(a.result === b.result).toBe(consumer === second && key === secondKey)
  },
)

const answer = fc.oneof(
  anything(),
  fc.constantFrom<unknown>(
    ['won'],
    ['in-flight', '-1'],
    ['in-flight', 'x'],
    ['done', 'l:x'],
    'kept',
    'completed',
  ),
  fc.tuple(fc.constantFrom('won', 'in-flight', 'done'), anything()),
  fc.tuple(
    fc.constant('done'),
    fc.tuple(fc.uuid(), hostileText()).map(([owner, text]) => `d:${owner}:7:${text}`),
  ),
)

const CLAIM = { consumer: 'c', key: 'k', leaseMs: 1000 }
const redisClaim = hostileRecord({ consumer: hostileText(), key: hostileText(), leaseMs: fc.double() })

fuzz(
  'whatever a Redis answers and a caller passes, a claim is answered or refused',
  1500,
  fc.tuple(
    fc.oneof({ weight: 3, arbitrary: fc.constant<unknown>(CLAIM) }, redisClaim, anything()),
    fc.oneof(hostileText(), anything()),
    fc.oneof(hostileRecord({ retentionMs: fc.double(), result: hostileText() }), anything()),
    answer,
    fc.boolean(),
  ),
  async ([claim, token, how, given, rejects]) => {
    const run = async (): Promise<unknown> => {
      if (rejects) throw given
      return given
    }
    const client = { evalsha: run, eval: run, call: run }
    const store = redisDedup({ client })
    const begun = await outcomeOfAsync(() => store.begin(claim as never))
    if ('result' in begun) {
      expect(['won', 'in-flight', 'done']).toContain(begun.result.status)
      if (begun.result.status === 'in-flight') {
        const { retryAfterMs } = begun.result
        expect(retryAfterMs >= 0 && retryAfterMs <= 1000).toBe(true)
      }
    }
    for (const outcome of [
      begun,
      await outcomeOfAsync(() => store.complete(token as never, how as never)),
      await outcomeOfAsync(() => store.release(token as never)),
      await outcomeOfAsync(() => store.extend(token as never, 1000)),
    ]) {
      if ('thrown' in outcome) {
        expectRefusal(
          outcome.thrown,
          'TXBOX_INVALID_OPTION',
          'TXBOX_INVALID_MESSAGE',
          'TXBOX_DEDUP_STORE_UNAVAILABLE',
        )
      }
    }
    const warning = await store.warning()
    if (warning !== undefined) expectPresentable(warning)
  },
)
