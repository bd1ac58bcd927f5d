import { SQSClient } from '@aws-sdk/client-sqs'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { sqsSource } from '@txbox/sqs'
import { until } from '../../support/worlds/until.ts'
import { entry, idsOf, openerOf, receive } from '../receiving.ts'
import { attributeOf, clientSettings, endpointAt, useSqs } from '../sqs-under-test.ts'

// fauxqs hands out one message of a group at a time, which SQS and ElasticMQ do not.
const sqs = useSqs()
const opened = openerOf(sqs)

test('C22 when a delivery of a message group is lost, the later ones are lost, too, and all are delivered again in their order', async () => {
  const queue = await sqs.current.queue({ fifo: true })
  await sqs.current.send(queue, [entry('a1', 'a'), entry('a2', 'a'), entry('a3', 'a')])
  const open = await opened({ queue, visibilityTimeoutMs: 1000, waitMs: 1000 })
  const deliveries = await receive(open, 3)
  expect(idsOf(deliveries)).toEqual(['a1', 'a2', 'a3'])
  const order: string[] = []
  for (const { message, onLost } of deliveries.map((each) => ({
    message: each.message,
    onLost: each.onLost!.bind(each),
  }))) {
    onLost(() => void order.push(message.id))
  }
  // Only the later ones are renewed.
  for (const later of deliveries.slice(1)) await later.extend!(60_000)
  await until(
    async () => deliveries.every(({ lost }) => lost.aborted),
    () => `all are lost: ${order.join()}`,
  )
  expect(order).toEqual(['a3', 'a2', 'a1'])
  const again: string[] = []
  while (again.length < 3) {
    for (const delivery of await receive(open, 1)) {
      again.push(delivery.message.id)
      await delivery.accept()
    }
  }
  expect(again).toEqual(['a1', 'a2', 'a3'])
})

test('C22 a delivery that is lost while it is being settled loses the later ones of its group, too', async () => {
  const queue = await sqs.current.queue({ fifo: true })
  const between = await sqs.current.network()
  const client = new SQSClient(clientSettings(endpointAt(between)))
  onTestFinished(() => client.destroy())
  await sqs.current.send(queue, [entry('a1', 'a'), entry('a2', 'a')])
  const open = await opened({ client, queue: sqs.current.url(queue), visibilityTimeoutMs: 1000 })
  const [first, second] = await receive(open, 2)
  await second!.extend!(60_000)
  between.freeze()
  const accepting = first!.accept()
  await until(
    async () => first!.lost.aborted,
    () => 'the visibility timeout of the first is over',
  )
  expect(second!.lost.aborted).toBe(true)
  between.thaw()
  await accepting.catch(() => undefined)
})

test('C10 messages behind one that fails in its group are handled, however often they were received along with it', async () => {
  const [queue, deadLetterQueue] = [
    await sqs.current.queue({ fifo: true }),
    await sqs.current.queue({ fifo: true }),
  ]
  await sqs.current.send(
    queue,
    ['a1', 'a2', 'a3'].map((id) => entry(id, 'a')),
  )
  const attempts: string[] = []
  const consumer = createConsumer({
    source: sqsSource({ client: sqs.current.client, queue, deadLetterQueue, waitMs: 1000 }),
    name: 'billing',
    // With a pause, the later ones are back in the queue, and are received along with the first.
    retry: { attempts: 3, delayMs: () => 500 },
    handler: async ({ id }) => {
      attempts.push(id)
      if (id === 'a1' || (id === 'a2' && attempts.at(-2) === 'a1')) throw new Error('not now')
    },
    logger: false,
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await until(
    async () => attempts.includes('a3'),
    () => `all were handled: ${attempts.join()}`,
  )
  await consumer.stop()
  expect(attempts).toEqual(['a1', 'a1', 'a1', 'a2', 'a2', 'a3'])
  const dead = await sqs.current.take(deadLetterQueue)
  expect(dead.map((message) => attributeOf(message, 'txbox-id'))).toEqual(['a1'])
})
