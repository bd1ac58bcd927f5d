import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer, type Delivery } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const broker = useBroker()
const root = useRoot(target, mainKind(target))

const ATTEMPTS = 4
const BREAKS = 8
const MESSAGES = 60

async function send(queue: string): Promise<void> {
  const channel = await broker.confirmChannel()
  for (let n = 0; n < MESSAGES; n += 1) {
    channel.sendToQueue(queue, Buffer.from(JSON.stringify({ n })), { messageId: `m${n}`, persistent: true })
  }
  await channel.waitForConfirms()
  await channel.close()
}

for (const mode of ['with an inbox', 'at least once'] as const) {
  test(`C10 C24 more breaks of the connection to a quorum queue than attempts make no dead letter, ${mode}`, async () => {
    const between = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => between.close())
    const queue = await broker.queue({ type: 'quorum' })
    await send(queue)
    const name = `consumer-${randomUUID()}`
    const source = rabbitmqSource<{ n: number }>({
      url: broker.urlAt(between.address),
      queue,
      keepsRejected: true,
      countsDeliveries: true,
    })
    let isBreaking = true
    const slowly = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, isBreaking ? 30 : 1))
    const retry = { attempts: ATTEMPTS, delayMs: () => 1 }
    const options = { source, retry, logger: false as const, concurrency: 2, prefetch: 60 }
    const consumer: Consumer =
      mode === 'at least once'
        ? createConsumer({ ...options, name, handler: slowly })
        : createConsumer({
            ...options,
            inbox: createInbox({ database: root.database, consumer: name }),
            handler: async (tx, { payload }) => {
              await target.effect(tx, `${name} ${payload.n}`)
              await slowly()
            },
          })
    const events: ConsumerUnderTest['events'] = []
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    const breaks = (): number => events.filter(({ event }) => event === 'unavailable').length
    for (let n = 0; n < BREAKS; n += 1) {
      // The deliveries that were lost before have left by then, except those whose handlers run.
      await until(
        async () => breaks() === n && consumer.figures.inHand > 10,
        () => `deliveries are in hand after ${n} breaks: ${JSON.stringify(consumer.figures)}`,
      )
      between.cut()
    }
    isBreaking = false
    const handled = (): number =>
      new Set(events.flatMap(({ event, id }) => (event === 'handled' ? [id] : []))).size
    await until(
      async () => handled() === MESSAGES && consumer.figures.inHand === 0,
      () => `${MESSAGES} are handled: ${handled()}`,
    )
    await consumer.stop()
    expect(events.filter(({ event }) => event === 'dead-lettered' || event === 'dropped')).toEqual([])
    expect((await broker.channel.checkQueue(queue)).messageCount).toBe(0)
  })
}

test('C10 C24 the source reports deliveries that it has lost before they were received, and no others', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue({ type: 'classic' })
  for (const messageId of ['a', 'b', 'c']) broker.channel.sendToQueue(queue, Buffer.from('{}'), { messageId })
  const lost: Delivery[] = []
  const failures: unknown[] = []
  const source = rabbitmqSource({ url: broker.urlAt(between.address), queue })
  const opened = await source.open({
    prefetch: 3,
    failed: (error) => failures.push(error),
    lost: (delivery) => lost.push(delivery),
  })
  onTestFinished(() => opened.close())
  const [a] = await opened.receive(1, { signal: new AbortController().signal })
  await until(
    async () => (await broker.channel.checkQueue(queue)).messageCount === 0,
    () => 'all are delivered',
  )
  // The answer of the broker comes after the deliveries.
  await a!.accept()
  between.cut()
  await until(
    async () => failures.length === 1,
    () => 'the connection is lost',
  )
  expect(a!.message.id).toBe('a')
  expect(lost.map(({ message }) => message.id)).toEqual(['b', 'c'])
})
