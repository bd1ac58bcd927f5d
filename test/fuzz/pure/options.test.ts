import * as fc from 'fast-check'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { afterAll, expect } from 'vitest'
import { createBatcher, createConsumer, sqlDedup } from '@txbox/consumer'
import { consoleLogger, exponentialBackoff } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { migrationSql as mysqlSql, mysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { migrationSql as postgresSql, postgres } from '@txbox/postgres'
import { createQueue, queueSource } from '@txbox/queue'
import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import { redisDedup } from '@txbox/redis'
import { createDeadLetters, createRelay, publishEach } from '@txbox/relay'
import { createVersionBuffer, retryOnConflict, stateMachine } from '@txbox/versioning'
import { fuzz } from '../../support/worlds/fuzz.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { anything, hostileJson, hostileRecord, hostileText } from '../../support/worlds/hostile-values.ts'
import { expectRefusal, outcomeOf, outcomeOfAsync } from '../../support/worlds/refusals.ts'

// Neither connects before the first statement, and there is none.
const pool = new Pool({ host: '127.0.0.1', port: 9 })
const mysqlPool = createPool({ host: '127.0.0.1', port: 9 })
afterAll(async () => {
  await pool.end()
  await mysqlPool.end()
})
const databases = fc.constantFrom<unknown>(
  postgres(),
  postgres({ db: pool }),
  mysql(),
  mysql({ db: mysqlPool }),
)
const number = fc.oneof(fc.double(), fc.integer(), fc.integer({ min: 1, max: 100_000 }))
const callback = fc.constant(() => undefined)
const logger = fc.constantFrom<unknown>(consoleLogger(), false, { warn: 1, error: () => 0 })
const retry = fc.constantFrom<unknown>(
  exponentialBackoff(),
  { attempts: Number.NaN, delayMs: () => 1 },
  { attempts: 3 },
)
const publisher = fc.constantFrom<unknown>(
  { publish: () => [] },
  { publish: 1 },
  { ordering: 'x', publish: () => [] },
)

const connected = postgres({ db: pool })
const queue = createQueue({ database: connected, name: 'q' })
const amqpUrl = fc.oneof(
  hostileText(),
  hostileText().map((text) => `amqp://host/${text}`),
  fc.webUrl(),
  fc.constant('amqp://127.0.0.1:9'),
)
const client = { evalsha: callback, eval: callback, call: callback }
const dedup = fc.constantFrom<unknown>({ begin: 1 }, [], { onUnavailable: 'process', begin: () => 1 })

/** What makes an object of options, and what its options are. */
const makers: Record<string, readonly [(options: never) => unknown, Record<string, fc.Arbitrary<unknown>>]> =
  {
    createInbox: [
      createInbox,
      {
        database: databases,
        consumer: hostileText(),
        key: callback,
        retentionMs: number,
        onDuplicate: callback,
      },
    ],
    createOutbox: [createOutbox, { database: databases, notify: fc.boolean(), lockKeys: fc.boolean() }],
    createQueue: [
      createQueue,
      {
        database: databases,
        name: hostileText(),
        visibilityTimeoutMs: number,
        maxReceives: number,
        notify: fc.boolean(),
        deduplication: hostileRecord({ windowMs: number, contentBased: fc.boolean() }),
      },
    ],
    createRelay: [
      createRelay,
      {
        database: databases,
        publisher,
        batchSize: number,
        batchBytes: number,
        pollIntervalMs: hostileRecord({ min: number, max: number }),
        wakeup: fc.constantFrom('auto', 'poll', 'notify'),
        leaseMs: number,
        owner: hostileText(),
        retry,
        publishTimeoutMs: number,
        logger,
      },
    ],
    createDeadLetters: [createDeadLetters, { database: databases, by: hostileText() }],
    createGarbageCollector: [
      createGarbageCollector,
      {
        database: databases,
        batchSize: number,
        intervalMs: number,
        pauseMs: number,
        deadLetterRetentionMs: number,
        versionBuffers: fc.array(anything(), { maxLength: 2 }),
        logger,
      },
    ],
    createVersionBuffer: [
      createVersionBuffer,
      {
        database: databases,
        consumer: hostileText(),
        apply: callback,
        firstVersion: fc.oneof(number, fc.bigInt(), hostileText()),
        maxWaiting: number,
        maxAgeMs: number,
      },
    ],
    createBatcher: [
      createBatcher,
      {
        process: callback,
        maxSize: number,
        lingerMs: number,
        capacity: number,
        concurrency: number,
        channels: number,
        channelOf: callback,
        logger,
      },
    ],
    createConsumer: [
      createConsumer,
      {
        source: fc.constantFrom<unknown>(
          new MemorySource(),
          new MemorySource({ leaseMs: 1000, settlesInTransaction: true, keepsRejected: false }),
          { name: 'x', traits: {}, open: () => 1 },
          { name: 7, traits: { leaseMs: 'x' }, open: 1 },
        ),
        inbox: fc.constantFrom<unknown>(createInbox({ database: connected, consumer: 'c' }), { run: 1 }),
        database: databases,
        handler: callback,
        guard: callback,
        batch: hostileRecord({ maxSize: number, lingerMs: number }),
        delivery: fc.constantFrom('at-least-once', 'at-most-once', 'x'),
        name: hostileText(),
        concurrency: number,
        prefetch: number,
        order: fc.constantFrom('per-key', 'none', 'x'),
        acknowledge: fc.constantFrom('auto', 'manual', 'x'),
        retry,
        localRetries: number,
        localDelayMs: number,
        holdMs: number,
        handleTimeoutMs: number,
        deadLetters: publisher,
        deadLetterTopic: hostileText(),
        dedup,
        retentionMs: number,
        key: callback,
        logger,
      },
    ],
    rabbitmqSource: [
      rabbitmqSource,
      {
        url: amqpUrl,
        tls: hostileRecord({ ca: hostileText(), servername: hostileText() }),
        queue: hostileText(),
        declare: hostileRecord({
          type: fc.constantFrom('quorum', 'classic', 'x'),
          deadLetterExchange: hostileText(),
          singleActiveConsumer: fc.boolean(),
          deliveryLimit: number,
        }),
        keepsRejected: fc.boolean(),
        countsDeliveries: fc.boolean(),
        id: fc.constantFrom(() => 'id', 'x'),
        key: fc.constantFrom(() => 'key', 'x'),
        connectTimeoutMs: number,
      },
    ],
    queueSource: [
      (options) => queueSource(queue, options),
      { pollIntervalMs: hostileRecord({ min: number, max: number }) },
    ],
    sqlDedup: [
      sqlDedup,
      {
        database: databases,
        retentionMs: number,
        leaseMs: number,
        onUnavailable: fc.constantFrom('fail', 'process', 'x'),
      },
    ],
    redisDedup: [
      redisDedup,
      {
        client: fc.constant(client),
        prefix: hostileText(),
        retentionMs: number,
        leaseMs: number,
        onUnavailable: fc.constantFrom('fail', 'process', 'x'),
      },
    ],
    rabbitmqPublisher: [
      rabbitmqPublisher,
      {
        url: amqpUrl,
        tls: hostileRecord({ ca: hostileText(), servername: hostileText() }),
        exchange: hostileText(),
        exchangeType: fc.constantFrom('topic', 'x'),
        confirmTimeoutMs: number,
        maxMessageBytes: number,
      },
    ],
    publishEach: [(options) => publishEach(() => 1, options), { concurrency: number }],
    postgres: [postgres, { db: fc.constant(pool), schema: hostileText(), listen: hostileText() }],
    mysql: [mysql, { db: fc.constant(mysqlPool), prefix: hostileText() }],
  }

for (const [name, [make, members]] of Object.entries(makers)) {
  fuzz(
    `${name} refuses wrong options`,
    600,
    fc.oneof({ weight: 4, arbitrary: hostileRecord(members) }, anything()),
    (options) => {
      const outcome = outcomeOf(() => make(options as never))
      if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
    },
  )
}

fuzz('publishEach takes a function', 300, anything(), (publish) => {
  const outcome = outcomeOf(() => publishEach(publish as never))
  if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
})

fuzz('queueSource takes a queue', 300, anything(), (given) => {
  const outcome = outcomeOf(() => queueSource(given as never))
  if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
})

fuzz('names of schemas and prefixes stay inside their quotes', 1000, hostileText(), (name) => {
  for (const [sqlOf, quote] of [
    [postgresSql, '"'],
    [mysqlSql, '`'],
  ] as const) {
    const outcome = outcomeOf(() => sqlOf(name))
    if ('thrown' in outcome) {
      expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
      continue
    }
    const [{ sql } = { sql: '' }] = outcome.result
    const quoted = name.replaceAll(quote, quote + quote)
    if (name.includes(quote)) expect(sql).toContain(quoted)
    expect(sql.includes('\0')).toBe(false)
  }
})

const states = fc
  .array(
    fc.tuple(
      hostileText(),
      fc.oneof(fc.array(fc.oneof(hostileText(), anything()), { maxLength: 3 }), anything()),
    ),
    { maxLength: 4 },
  )
  .map((list) => Object.fromEntries(list))

fuzz('a state machine of hostile states, or a refusal', 1000, fc.oneof(states, anything()), (moves) => {
  const outcome = outcomeOf(() => stateMachine(moves as never))
  if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
  expect(outcome.result.states.every((state) => Object.hasOwn(outcome.result.moves, state))).toBe(true)
})

fuzz(
  'retryOnConflict refuses wrong options',
  400,
  fc.tuple(anything(), fc.oneof(anything(), hostileRecord({ attempts: number }))),
  async ([fn, options]) => {
    const work = typeof fn === 'function' ? () => Promise.resolve(1) : fn
    const outcome = await outcomeOfAsync(() => retryOnConflict(work as never, options as object))
    if ('thrown' in outcome) expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
  },
)

fuzz(
  'options of any name and kind',
  800,
  fc.tuple(fc.oneof(anything(), hostileJson()), hostileText()),
  ([options, name]) => {
    for (const check of [
      (checker: OptionChecker) => checker.known('a'),
      (checker: OptionChecker) => checker.text(name, { max: 10 }),
      (checker: OptionChecker) => checker.integer(name, { min: 1, max: 2, default: 1 }),
      (checker: OptionChecker) => checker.oneOf(name, ['a'], 'a'),
    ]) {
      const outcome = outcomeOf(() => check(new OptionChecker('fuzz', options as object)))
      if ('thrown' in outcome && name.length < 100 && /^\w*$/.test(name))
        expectRefusal(outcome.thrown, 'TXBOX_INVALID_OPTION')
    }
  },
)
