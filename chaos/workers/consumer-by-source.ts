// A consumer of the package: `createConsumer` takes deliveries from `rabbitmqSource`, hands them to the inbox, retries them, and
// publishes dead letters to a queue of their own.
import { createConsumer } from '@txbox/consumer'
import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import { exponentialBackoff } from '@txbox/relay'
import type { ConsumerParts } from './consumer-parts.ts'
import { CONSUMER_ATTEMPTS, CONSUMER_POOL_SIZE } from './limits.ts'
import { runConsumer } from './run-consumer.ts'
import { DEAD_QUEUE, WORK_QUEUE, type Change } from './worker-protocol.ts'

export async function consumeBySource({ worker, inbox, effect }: ConsumerParts): Promise<void> {
  const { brokerUrl, leaseMs } = worker.config
  const consumer = createConsumer({
    source: rabbitmqSource<Change>({ url: brokerUrl, queue: WORK_QUEUE, connectTimeoutMs: 2000 }),
    inbox,
    concurrency: CONSUMER_POOL_SIZE,
    prefetch: CONSUMER_POOL_SIZE * 3,
    // A message that hangs may take longer. On an overloaded machine the lease is longer too.
    handleTimeoutMs: leaseMs * 2,
    retry: exponentialBackoff({ attempts: CONSUMER_ATTEMPTS, minMs: 50, maxMs: 500 }),
    // In the default exchange, the topic names the queue.
    deadLetters: rabbitmqPublisher({ url: brokerUrl, exchange: '', connectTimeoutMs: 2000 }),
    deadLetterTopic: DEAD_QUEUE,
    handler: (tx, message) => effect(tx, message),
  })
  await runConsumer(worker, consumer, 'processed')
}
