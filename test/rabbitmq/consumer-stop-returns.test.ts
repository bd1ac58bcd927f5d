import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer, type MessageHandler } from '@txbox/consumer'
import { rabbitmqSource, type RabbitmqQueueDeclaration } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const MESSAGES = 8

interface Queue {
  readonly name: string
  readonly declare?: RabbitmqQueueDeclaration
}

/** @param keyOf the ordering key of message number n. */
async function fill({ name }: Queue, keyOf: (n: number) => string | undefined): Promise<void> {
  const channel = await broker.confirmChannel()
  for (let n = 0; n < MESSAGES; n += 1) {
    const key = keyOf(n)
    const headers = key === undefined ? {} : { 'txbox-key': key }
    channel.sendToQueue(name, Buffer.from('{}'), { messageId: `m${n}`, headers, persistent: true })
  }
  await channel.waitForConfirms()
  await channel.close()
}

async function consume({ name, declare }: Queue, handler: MessageHandler): Promise<Consumer> {
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue: name, declare, keepsRejected: true }),
    name: 'orders',
    concurrency: 1,
    prefetch: MESSAGES,
    logger: false,
    handler,
  })
  onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  return consumer
}

/** A queue that a consumer declares, or that exists before. */
async function queueOf(how: string, declare: RabbitmqQueueDeclaration): Promise<Queue> {
  if (how === 'existing') return { name: await broker.queue({ type: declare.type }) }
  const name = broker.name('queue')
  broker.deleteAfterwards(name)
  return { name, declare }
}

/** A consumer that has received all messages of the queue and stops while it handles the first. */
async function stopping(queue: Queue, keyOf: (n: number) => string | undefined) {
  const handling = Promise.withResolvers<void>()
  const first = await consume(queue, () => handling.promise)
  await fill(queue, keyOf)
  await until(
    async () =>
      first.figures.running === 1 && (await broker.channel.checkQueue(queue.name)).messageCount === 0,
    () => `the consumer has ${first.figures.inHand} of the messages in hand`,
  )
  const stopped = first.stop({ timeoutMs: 60_000 })
  return {
    end: async () => {
      handling.resolve()
      await stopped
    },
  }
}

/** A consumer that is stopping, and another consumer of the queue. */
async function handedOver(queue: Queue, keyOf: (n: number) => string | undefined) {
  const { end } = await stopping(queue, keyOf)
  const taken: { id: string; deliveries: number }[] = []
  await consume(queue, ({ id }, { deliveries }) => void taken.push({ id, deliveries }))
  const ids = (): string[] => taken.map(({ id }) => id).toSorted()
  return {
    taken,
    takes: (expected: readonly string[]) =>
      until(
        async () => expected.every((id) => ids().includes(id)),
        () => `the other consumer has taken ${ids().join(' ')}`,
      ),
    all: Array.from({ length: MESSAGES }, (_, n) => `m${n}`),
    end,
  }
}

const DECLARED = [
  { type: 'quorum' },
  { type: 'classic' },
  { type: 'quorum', deliveryLimit: 100 },
  { type: 'quorum', singleActiveConsumer: true },
] as const

for (const how of ['existing', 'declared']) {
  for (const declare of how === 'declared' ? DECLARED : DECLARED.slice(0, 2)) {
    const name = `${how} queue ${JSON.stringify(declare)}`
    test(`C23 stop returns the waiting deliveries without a key at once, while a handler runs: ${name}`, async () => {
      const world = await handedOver(await queueOf(how, declare), () => undefined)
      await world.takes(world.all.slice(1))
      await world.end()
      expect(world.taken.map(({ id }) => id)).not.toContain('m0')
    })
  }
}

for (const declare of DECLARED) {
  test(`C22 C23 stop returns the waiting deliveries with a key when no handler runs any more, in their order: declared queue ${JSON.stringify(declare)}`, async () => {
    const world = await handedOver(await queueOf('declared', declare), () => 'k')
    // The broker has had time to deliver what was returned.
    await broker.channel.checkQueue(await broker.queue())
    await new Promise((resolve) => void setTimeout(resolve, 300))
    expect(world.taken).toEqual([])
    await world.end()
    await world.takes(world.all.slice(1))
    expect(world.taken.map(({ id }) => id)).toEqual(world.all.slice(1))
  })
}

test('C23 stop returns the deliveries without a key at once, and those with a key when no handler runs any more', async () => {
  const world = await handedOver(await queueOf('declared', { type: 'quorum' }), (n) =>
    n % 2 === 0 ? 'k' : undefined,
  )
  await world.takes(['m1', 'm3', 'm5', 'm7'])
  await new Promise((resolve) => void setTimeout(resolve, 300))
  expect(world.taken.length).toBe(4)
  await world.end()
  await world.takes(world.all.slice(1))
})

test('C23 stop counts no delivery that has not begun, where RabbitMQ counts no nack: from 4.3', async () => {
  const queue = await queueOf('declared', { type: 'quorum' })
  const { end } = await stopping(queue, () => 'k')
  await end()
  const left = await broker.take(queue.name)
  const { version } = (broker.channel.connection as unknown as { serverProperties: { version: string } })
    .serverProperties
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const counted = major > 4 || (major === 4 && minor >= 3) ? undefined : 1
  expect(left.map(({ properties }) => properties.headers?.['x-delivery-count'] as unknown)).toEqual(
    Array(MESSAGES - 1).fill(counted),
  )
})
