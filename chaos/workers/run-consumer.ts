import type { Consumer } from '@txbox/consumer'
import type { Worker } from './worker.ts'

/**
 * Counts the events of a consumer.
 *
 * @param processed the name under which processed messages are counted.
 */
export function countEvents<M>(worker: Worker, consumer: Pick<Consumer<M>, 'on'>, processed: string): void {
  consumer.on('handled', ({ outcome }) => worker.count(outcome === 'processed' ? processed : outcome))
  consumer.on('retried', ({ error }) => {
    worker.count('retried')
    worker.failed(error)
  })
  consumer.on('lost', () => worker.count('lost deliveries'))
  consumer.on('order-broken', () => worker.count('order broken'))
  consumer.on('dead-lettered', () => worker.count('dead letters'))
  consumer.on('unavailable', ({ error }) => worker.failed(error))
  consumer.on('error', ({ error }) => worker.failed(error))
}

/** Runs a consumer until its worker has to end, and counts the events of the consumer. */
export async function runConsumer<M>(
  worker: Worker,
  consumer: Consumer<M>,
  processed: string,
): Promise<void> {
  countEvents(worker, consumer, processed)
  await consumer.start()
  worker.ready()
  await new Promise<void>((resolve) =>
    worker.ending.addEventListener('abort', () => resolve(), { once: true }),
  )
  await consumer.stop({ timeoutMs: 10_000 })
}
