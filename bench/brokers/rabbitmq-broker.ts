import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import amqp from 'amqplib'
import { RABBITMQ_URL, makeQueue } from '../postgres/bench-queue.ts'
import type { HandClient } from '../postgres/relay-by-hand.ts'
import { PREFETCH, headersOf, type BenchBroker } from './bench-broker.ts'
import { HandlersByHand, readMessage, type ReadMessage } from './work-by-hand.ts'

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
      receiveBare: (messages) => receive(queue, messages, (channel, raw) => channel.ack(raw)),
      receiveLikeSource(messages) {
        const handlers = new HandlersByHand()
        return receive(queue, messages, async (channel, raw) => {
          await handlers.handle(readDelivery(raw))
          channel.ack(raw)
        })
      },
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
        const { id: messageId, key, type, content_type: contentType, created_at: createdAt, payload } = row
        const properties = { persistent: true, mandatory: true, messageId, type: type ?? '', contentType }
        const own = key === null ? {} : { 'txbox-key': key }
        channel.publish('', queue, payload, {
          ...properties,
          timestamp: Math.floor(createdAt.getTime() / 1000),
          headers: { ...headersOf(row.headers), ...own, 'txbox-time': createdAt.toISOString() },
        })
      }
      await channel.waitForConfirms()
    },
    close: () => connection.close(),
  }
}

/** @param handle acknowledges the delivery. */
async function receive(
  queue: string,
  messages: number,
  handle: (channel: amqp.Channel, raw: amqp.ConsumeMessage) => void | Promise<void>,
): Promise<void> {
  const connection = await amqp.connect(RABBITMQ_URL)
  const channel = await connection.createChannel()
  await channel.prefetch(PREFETCH)
  const finished = Promise.withResolvers<void>()
  let handled = 0
  const acknowledged = (): void => {
    if (++handled === messages) finished.resolve()
  }
  await channel.consume(queue, (raw) => {
    if (raw === null) return finished.reject(new Error('The broker has cancelled the consumer.'))
    const handling = handle(channel, raw)
    if (handling === undefined) acknowledged()
    else handling.then(acknowledged, finished.reject)
  })
  await finished.promise
  // The broker answers this after the acknowledgements.
  await channel.checkQueue(queue)
  await connection.close()
}

function readDelivery({ properties, content }: amqp.ConsumeMessage): ReadMessage {
  const { messageId, type, contentType, headers } = properties
  const fields: [string, string][] = Object.entries(headers ?? {})
  fields.push(['txbox-id', messageId as string], ['txbox-type', type as string])
  fields.push(['content-type', contentType as string])
  return readMessage(fields, content)
}
