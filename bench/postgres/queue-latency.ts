import { setTimeout as pause } from 'node:timers/promises'
import { createConsumer } from '@txbox/consumer'
import { migrate, postgres } from '@txbox/postgres'
import { createQueue, queueSource } from '@txbox/queue'
import { percentile } from '../measure/statistics.ts'
import { anyOrder } from '../order-message.ts'
import type { BenchDatabase } from './bench-database.ts'

const SCHEMA = 'queue_latency'
const WARM_UP_MS = 1000

/** Milliseconds from the answer to COMMIT to the call of the handler. */
export interface QueueLatency {
  readonly p50Ms: number
  readonly p99Ms: number
}

/** At a steady rate with random gaps, with NOTIFY. Producer and consumer share this process. */
export async function commitToHandlerLatency(
  database: BenchDatabase,
  { messagesPerSecond, seconds }: { readonly messagesPerSecond: number; readonly seconds: number },
): Promise<QueueLatency> {
  const producers = database.pool({ max: 4 })
  const own = database.pool({ max: 12 })
  await producers.query(`drop schema if exists ${SCHEMA} cascade`)
  await migrate(producers, { schema: SCHEMA })
  const connected = postgres({ db: own, schema: SCHEMA, listen: database.url })
  const queue = createQueue({ database: connected, name: 'orders', notify: true })
  const committedAt = new Map<string, number>()
  const handledAt = new Map<string, number>()
  const measuredFrom = performance.now() + WARM_UP_MS
  const endsAt = measuredFrom + seconds * 1000
  const produce = async (): Promise<void> => {
    const client = await producers.connect()
    try {
      await client.query('BEGIN')
      const { type, key, payload } = anyOrder()
      const { id } = await queue.send(client, { type, key, payload })
      await client.query('COMMIT')
      committedAt.set(id, performance.now())
    } finally {
      client.release()
    }
  }
  const consumer = createConsumer({
    source: queueSource(queue),
    name: 'bench',
    database: connected,
    handler: (_tx, message) => void handledAt.set(message.id, performance.now()),
  })
  await consumer.start()
  const producing: Promise<void>[] = []
  for (let next = performance.now(); next < endsAt;) {
    next += (-Math.log(1 - Math.random()) * 1000) / messagesPerSecond
    await pause(Math.max(0, next - performance.now()))
    producing.push(produce())
  }
  await Promise.all(producing)
  while (handledAt.size < committedAt.size) await pause(10)
  await consumer.stop()
  // The connection that listens stays open for a second.
  await pause(1500)
  await database.close(own)
  await database.close(producers)
  const latencies = [...committedAt].flatMap(([id, from]) =>
    // The consumer may see a message before its producer has got the answer to COMMIT.
    from < measuredFrom ? [] : [Math.max(0, handledAt.get(id)! - from)],
  )
  return { p50Ms: percentile(latencies, 50), p99Ms: percentile(latencies, 99) }
}
