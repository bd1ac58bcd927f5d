import { InvalidMessageError, type InboxMessage } from '@txbox/inbox'
import { fromRabbitmq } from '@txbox/rabbitmq'
import amqp, { type Channel, type ConsumeMessage } from 'amqplib'

/**
 * Handles what comes from a RabbitMQ queue one after the other, and acknowledges each once `handle` has resolved.
 *
 * A delivery whose handler fails is not put back: those behind it are here already and would overtake it. The process
 * ends instead, and and after a restart all unacknowledged messages are at their old places in the queue.
 */
export async function consumeInOrder<P>(
  url: string,
  queue: string,
  handle: (message: InboxMessage<P>) => Promise<void>,
): Promise<void> {
  const connection = await amqp.connect(url)
  const channel = await connection.createChannel()
  await channel.prefetch(50)
  let last = Promise.resolve()
  await channel.consume(queue, (delivery) => {
    last = last.then(() => settle(channel, delivery, handle)).catch(end)
  })
  connection.on('error', end)
  connection.on('close', end)
}

async function settle<P>(
  channel: Channel,
  delivery: ConsumeMessage | null,
  handle: (message: InboxMessage<P>) => Promise<void>,
): Promise<void> {
  if (delivery === null) throw new Error('RabbitMQ has cancelled the consumer: the queue is gone.')
  try {
    await handle(fromRabbitmq<P>(delivery))
    channel.ack(delivery)
  } catch (error) {
    if (!(error instanceof InvalidMessageError)) throw error
    // No redelivery fixes a message without an id. The queue's dead-letter exchange takes it, if it has one.
    console.error(error)
    channel.nack(delivery, false, false)
  }
}

function end(error?: unknown): never {
  console.error(error ?? new Error('RabbitMQ has closed the connection.'))
  process.exit(1)
}
