import amqp, { type ChannelModel } from 'amqplib'
import { createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { orderOfTurn } from '../measure/rotation.ts'
import { ratioOf, summarise, type Summary } from '../measure/statistics.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Suite } from '../suite.ts'
import { RABBITMQ_URL, makeQueue, type BenchQueue } from './bench-queue.ts'

/** The messages that always fail, and the good ones behind them. */
const FAILING = 10_000
const GOOD = 500

/** The prefetch that a consumer has by default. */
const PREFETCH = 20

/** The first delay of a consumer, in a queue that is made before the time is taken. */
const RETRY_SECONDS = 1

const VARIANTS = ['bare', 'without keys', 'with keys'] as const
type Variant = (typeof VARIANTS)[number]

/** Good messages behind failing ones, each with another key or without one, beside a bare client that republishes the failing ones. */
export function retriesSuite(): Suite {
  return {
    name: 'retries',
    async run({ rounds }) {
      const took: Record<Variant, number[]> = { bare: [], 'without keys': [], 'with keys': [] }
      for (let round = -1; round < rounds; round += 1) {
        for (const variant of orderOfTurn(VARIANTS, round + 1)) {
          const made = await makeQueue()
          if (made === undefined) {
            console.log('\nretries: no RabbitMQ found, at RABBITMQ_URL or 127.0.0.1:5672: left out')
            return []
          }
          const ms = await measured(made, variant)
          if (round >= 0) took[variant].push(ms)
        }
      }
      return report(took, rounds)
    },
  }
}

function report(took: Record<Variant, number[]>, rounds: number): Awaited<ReturnType<Suite['run']>> {
  const spread = (ms: readonly number[]): string => wholeSpread(summarise(ms))
  const ratios = (['without keys', 'with keys'] as const).map((variant) => ({
    variant,
    ratio: ratioOf(took[variant], took.bare),
  }))
  console.log(
    `\nretries: ms until ${whole(GOOD)} messages behind ${whole(FAILING)} that fail are handled, prefetch ${PREFETCH}, ${rounds} rounds`,
  )
  const rows = ratios.map(({ variant, ratio }): string[] => [
    `consumer, ${variant}`,
    spread(took[variant]),
    ratioSpread(ratio),
  ])
  const bare = ['bare client: republishes each with a confirm, and acknowledges it', spread(took.bare), '1']
  console.log(formatTable(['', 'ms (min–max)', 'time ÷ bare (min–max)'], [bare, ...rows]))
  return ratios.map(({ variant, ratio }: { variant: string; ratio: Summary }) => ({
    what: `good messages behind ${whole(FAILING)} that fail, ${variant} ÷ bare client that republishes those`,
    bound: { atMost: 1.5 },
    ratio,
    figures: `${spread(took[variant as Variant])} ms; bare ${spread(took.bare)} ms`,
  }))
}

async function measured(made: BenchQueue, variant: Variant): Promise<number> {
  const connection = await amqp.connect(RABBITMQ_URL)
  const retryQueue = `${made.name}.txbox-retry-${RETRY_SECONDS}`
  try {
    await made.channel.assertQueue(retryQueue, {
      arguments: {
        'x-queue-type': 'quorum',
        'x-message-ttl': RETRY_SECONDS * 1000,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': made.name,
        'x-dead-letter-strategy': 'at-least-once',
        'x-overflow': 'reject-publish',
      },
    })
    await fill(connection, made.name, variant === 'with keys')
    return variant === 'bare'
      ? await bareClient(connection, made.name, retryQueue)
      : await consumer(made.name)
  } finally {
    await connection.close()
    for (const seconds of [1, 5, 30, 120, 300, 900, 3600]) {
      await made.channel.deleteQueue(`${made.name}.txbox-retry-${seconds}`)
    }
    await made.dispose()
  }
}

async function fill(connection: ChannelModel, queue: string, isKeyed: boolean): Promise<void> {
  const channel = await connection.createConfirmChannel()
  for (let n = 0; n < FAILING + GOOD; n += 1) {
    const messageId = `${n < FAILING ? 'bad' : 'good'} ${n}`
    const headers = isKeyed ? { 'txbox-key': messageId } : {}
    channel.sendToQueue(queue, Buffer.from('{}'), { persistent: true, messageId, headers })
    if (n % 1000 === 999) await channel.waitForConfirms()
  }
  await channel.waitForConfirms()
  await channel.close()
}

/** Ends when all good messages are acknowledged, and each failing one has been republished once. */
async function bareClient(filled: ChannelModel, queue: string, retryQueue: string): Promise<number> {
  const publishing = await amqp.connect(RABBITMQ_URL, { noDelay: true })
  const confirming = await publishing.createConfirmChannel()
  const channel = await filled.createChannel()
  const finished = Promise.withResolvers<void>()
  await channel.prefetch(PREFETCH)
  let handled = 0
  let moved = 0
  const startedAt = performance.now()
  const { consumerTag } = await channel.consume(queue, (delivery) => {
    if (delivery === null) return
    const { content, properties } = delivery
    const done = (): void => {
      channel.ack(delivery)
      if (handled >= GOOD && moved >= FAILING) finished.resolve()
    }
    if (String(properties.messageId).startsWith('good')) {
      handled += 1
      done()
      return
    }
    const options = { ...properties, headers: {}, persistent: true, mandatory: true }
    confirming.publish('', retryQueue, content, options, (error: unknown) => {
      if (error !== null && error !== undefined) return
      moved += 1
      done()
    })
  })
  await finished.promise
  const ms = performance.now() - startedAt
  await channel.cancel(consumerTag)
  await confirming.waitForConfirms()
  await publishing.close()
  return ms
}

async function consumer(queue: string): Promise<number> {
  const finished = Promise.withResolvers<void>()
  let handled = 0
  const subject = createConsumer({
    source: rabbitmqSource({ url: RABBITMQ_URL, queue, keepsRejected: true }),
    name: 'bench',
    logger: false,
    handler: ({ id }) => {
      if (id.startsWith('bad')) throw new Error('always')
      handled += 1
      if (handled === GOOD) finished.resolve()
    },
  })
  const startedAt = performance.now()
  await subject.start()
  await finished.promise
  const ms = performance.now() - startedAt
  await subject.stop({ timeoutMs: 1000 })
  return ms
}
