import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Channel } from 'amqplib'
import { orderOfTurn } from '../measure/rotation.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import type { Suite } from '../suite.ts'
import { publishBare, type BareMessage } from './bare-rabbitmq-client.ts'
import type { BenchDatabase } from './bench-database.ts'
import { RABBITMQ_URL, makeQueue, type BenchQueue } from './bench-queue.ts'
import {
  HANDLERS,
  bareNothing,
  consumerInBatches,
  consumerOfNothing,
  consumerWithInbox,
  idleConsumer,
  inboxByHand,
  type ConsumerVariant,
} from './consumer-variants.ts'
import { assertWorkDone, checkpoint } from './workspace.ts'

const NOTHING_MESSAGES = 10_000
const INBOX_MESSAGES = 10_000
/** As many as take about the same time. */
const BATCHED_MESSAGES = 15_000
const WINDOW = 4000
const KEYS = 1000
const REQUEUED_WITHIN_MS = 200
const IDLE_SETTLING_MS = 1000
const IDLE_MS = 5000

const TITLES: Readonly<Record<string, string>> = {
  bare: 'amqplib, no-op, each acknowledged',
  consumer: 'consumer, no-op',
  byHand: 'by hand around inbox.run, one update',
  inbox: 'consumer with inbox, one update',
  batches: 'consumer with inbox, batches of 100',
}

/** A consumer of RabbitMQ beside bare amqplib, and beside the same loop by hand, in one process. */
export function consumerSuite(database: BenchDatabase): Suite {
  return {
    name: 'consumer',
    async run({ rounds }) {
      const queue = await makeQueue()
      if (queue === undefined) {
        console.log('\nconsumer: no RabbitMQ found, at RABBITMQ_URL or 127.0.0.1:5672: left out')
        return []
      }
      try {
        const targets = [
          ...(await measureNothing(queue, rounds)),
          ...(await measureInbox(database, queue, rounds)),
        ]
        await measureIdle(database, queue)
        return targets
      } finally {
        await queue.dispose()
      }
    },
  }
}

async function measureNothing(queue: BenchQueue, rounds: number): Promise<readonly Target[]> {
  console.log(
    `\nconsumer: ${whole(NOTHING_MESSAGES)} deliveries of a quorum queue to a handler that does nothing, prefetch 100`,
  )
  const rates = await interleaved([bareNothing, consumerOfNothing], queue, {
    rounds,
    messages: () => NOTHING_MESSAGES,
  })
  print(rates, 'bare')
  return [target('consumer, no-op: rate ÷ amqplib', 0.9, rates.consumer, ['bare', rates.bare])]
}

async function measureInbox(
  database: BenchDatabase,
  queue: BenchQueue,
  rounds: number,
): Promise<readonly Target[]> {
  console.log(
    `\nconsumer: ${whole(INBOX_MESSAGES)} deliveries with an inbox and one update each, ${HANDLERS} at a time`,
  )
  const pool = database.pool({ max: HANDLERS })
  const variants = [await inboxByHand(pool), await consumerWithInbox(pool), await consumerInBatches(pool)]
  const rates = await interleaved(variants, queue, {
    rounds,
    messages: (name) => (name === 'batches' ? BATCHED_MESSAGES : INBOX_MESSAGES),
    before: () => checkpoint(pool),
  })
  print(rates, 'byHand')
  // The warm-up is a round, too.
  for (const [schema, messages] of [
    ['consumer_by_hand', INBOX_MESSAGES],
    ['consumer_inbox', INBOX_MESSAGES],
    ['consumer_batches', BATCHED_MESSAGES],
  ] as const) {
    const done = messages * (rounds + 1)
    await assertWorkDone(pool, schema, { credits: done, inbox: done })
  }
  await database.close(pool)
  return [
    target('consumer with inbox: rate ÷ by hand', 0.95, rates.inbox, ['by hand', rates.byHand]),
    target('consumer in batches of 100: rate ÷ single', 5, rates.batches, ['single', rates.inbox]),
  ]
}

/** Prints what a consumer costs this process while no message comes. */
async function measureIdle(database: BenchDatabase, { name }: BenchQueue): Promise<void> {
  const pool = database.pool({ max: HANDLERS })
  const consumer = await idleConsumer(pool, name)
  const memoryBefore = process.memoryUsage()
  await consumer.start()
  await pause(IDLE_SETTLING_MS)
  const before = process.cpuUsage()
  const startedAt = performance.now()
  await pause(IDLE_MS)
  const { user, system } = process.cpuUsage(before)
  const share = (user + system) / 1000 / (performance.now() - startedAt)
  const { rss, heapUsed } = process.memoryUsage()
  const kib = (bytes: number): string => `${whole(bytes / 1024)} KiB`
  console.log(
    `\nconsumer: idle for ${IDLE_MS / 1000} s: ${(share * 100).toFixed(2)} % of a core, heap ` +
      `${kib(heapUsed - memoryBefore.heapUsed)} more than before its start, ${kib(rss)} of memory in the whole process`,
  )
  await consumer.stop()
  await database.close(pool)
}

/** Messages a second, one figure a round; each variant starts from no connection. */
async function interleaved<N extends string>(
  variants: readonly ConsumerVariant<N>[],
  { name: queue, channel }: BenchQueue,
  how: {
    readonly rounds: number
    readonly messages: (name: N) => number
    readonly before?: () => Promise<void>
  },
): Promise<Readonly<Record<N, readonly number[]>>> {
  const rates = Object.fromEntries(variants.map(({ name }) => [name, []])) as unknown as Record<N, number[]>
  for (let round = -1; round < how.rounds; round++) {
    for (const variant of orderOfTurn(variants, round + 1)) {
      const messages = how.messages(variant.name)
      await publishBare(RABBITMQ_URL, queue, messagesOf(messages), WINDOW)
      await how.before?.()
      const startedAt = performance.now()
      await variant.drain(queue, messages)
      const seconds = (performance.now() - startedAt) / 1000
      await assertEmpty(channel, queue)
      if (round >= 0) rates[variant.name].push(messages / seconds)
    }
  }
  return rates
}

/** Fails if a message is there again: every variant must have acknowledged all of its messages. */
async function assertEmpty(channel: Channel, queue: string): Promise<void> {
  await pause(REQUEUED_WITHIN_MS)
  const { messageCount } = await channel.checkQueue(queue)
  if (messageCount > 0) throw new Error(`${messageCount} messages were not acknowledged.`)
}

function messagesOf(count: number): readonly BareMessage[] {
  const payload = Buffer.from(JSON.stringify({ text: 'x'.repeat(480) }))
  return Array.from({ length: count }, (_, n) => ({
    id: randomUUID(),
    key: `key-${n % KEYS}`,
    type: 'order.changed',
    payload,
  }))
}

function print<N extends string>(rates: Readonly<Record<N, readonly number[]>>, other: N): void {
  console.log(
    formatTable(
      ['', 'messages/s (min–max)', 'ratio to the first (min–max)'],
      (Object.entries(rates) as [N, readonly number[]][]).map(([name, perRound]) => [
        TITLES[name] ?? name,
        wholeSpread(summarise(perRound)),
        ratioSpread(ratioOf(perRound, rates[other])),
      ]),
    ),
  )
}

function target(
  what: string,
  atLeast: number,
  ours: readonly number[],
  [name, other]: readonly [string, readonly number[]],
): Target {
  return { what, bound: { atLeast }, ratio: ratioOf(ours, other), figures: ratesBeside(ours, name, other) }
}
