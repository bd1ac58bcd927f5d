import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import amqp from 'amqplib'
import { RABBITMQ_URL, makeQueue } from '../postgres/bench-queue.ts'
import type { HandClient } from '../postgres/relay-by-hand.ts'
import { PREFETCH, fieldsOf, type BenchBroker } from './bench-broker.ts'

/** A quorum queue of RabbitMQ, with amqplib. */
export const rabbitmqBroker: BenchBroker = {
  name: 'RabbitMQ',
  messages: 20_000,
  variable: 'RABBITMQ_URL',
  async open() {
    const made = await makeQueue()
    if (made === undefined) return undefined
    const { name: queue, channel } = made
    return {
      topic: queue,
      empty: async () => void (await channel.purgeQueue(queue)),
      count: async () => (await channel.checkQueue(queue)).messageCount,
      publisher: () => rabbitmqPublisher({ url: RABBITMQ_URL, exchange: '' }),
      client: () => connected(queue),
      source: () => rabbitmqSource({ url: RABBITMQ_URL, queue, keepsRejected: true, countsDeliveries: true }),
      receiveBare: (messages) => receive(queue, messages),
      dispose: () => made.dispose(),
    }
  },
}

async function connected(queue: string): Promise<HandClient> {
  const connection = await amqp.connect(RABBITMQ_URL, { noDelay: true })
  const channel = await connection.createConfirmChannel()
  return {
    async publish(rows) {
      for (const row of rows) {
        const { id: messageId, type, content_type: contentType, payload } = row
        const properties = { persistent: true, mandatory: true, messageId, type: type ?? '', contentType }
        channel.publish('', queue, payload, { ...properties, headers: fieldsOf(row) })
      }
      await channel.waitForConfirms()
    },
    close: () => connection.close(),
  }
}

async function receive(queue: string, messages: number): Promise<void> {
  const connection = await amqp.connect(RABBITMQ_URL)
  const channel = await connection.createChannel()
  await channel.prefetch(PREFETCH)
  const finished = Promise.withResolvers<void>()
  let handled = 0
  await channel.consume(queue, (raw) => {
    if (raw === null) return finished.reject(new Error('The broker has cancelled the consumer.'))
    channel.ack(raw)
    if (++handled === messages) finished.resolve()
  })
  await finished.promise
  // The broker answers this after the acknowledgements.
  await channel.checkQueue(queue)
  await connection.close()
}
