import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { createRelay, type Publisher } from '@txbox/relay'
import { percentile } from '../measure/statistics.ts'
import type { BenchDatabase } from './bench-database.ts'
import { anyOrder } from '../order-message.ts'
import { idlePublisher } from './relay-variants.ts'

const SCHEMA = 'relay_latency'
const WARM_UP_MS = 2000

export interface Latency {
  readonly messages: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/**
 * From the answer to COMMIT until the relay hands the message to the publisher, at a steady rate with random gaps: even
 * ones could fall into step with the relay's polling.
 */
export async function commitToPublishLatency(
  database: BenchDatabase,
  { messagesPerSecond, seconds }: { readonly messagesPerSecond: number; readonly seconds: number },
): Promise<Latency> {
  const producers = database.pool({ max: 4 })
  const own = database.pool({ max: 6 })
  await producers.query(`drop schema if exists ${SCHEMA} cascade`)
  await migrate(producers, { schema: SCHEMA })
  const outbox = createOutbox({ database: postgres({ schema: SCHEMA }) })
  const committedAt = new Map<string, number>()
  const publishedAt = new Map<string, number>()
  const publisher: Publisher = {
    publish(messages, options) {
      const now = performance.now()
      for (const message of messages) publishedAt.set(message.id, now)
      return idlePublisher.publish(messages, options)
    },
  }
  const produce = async (): Promise<void> => {
    const client = await producers.connect()
    try {
      await client.query('BEGIN')
      const { id } = await outbox.publish(client, anyOrder())
      await client.query('COMMIT')
      committedAt.set(id, performance.now())
    } finally {
      client.release()
    }
  }

  const measuredFrom = performance.now() + WARM_UP_MS
  const endsAt = measuredFrom + seconds * 1000
  const producing: Promise<void>[] = []
  {
    await using relay = createRelay({ database: postgres({ db: own, schema: SCHEMA }), publisher })
    await relay.start()
    for (let next = performance.now(); next < endsAt;) {
      next += (-Math.log(1 - Math.random()) * 1000) / messagesPerSecond
      await pause(Math.max(0, next - performance.now()))
      producing.push(produce())
    }
    await Promise.all(producing)
    await relay.drain()
  }
  await database.close(own)
  await database.close(producers)
  // The relay may see a message before its producer has got the answer to COMMIT.
  const latencies = [...committedAt].flatMap(([id, at]) =>
    at < measuredFrom ? [] : [Math.max(0, publishedAt.get(id)! - at)],
  )
  return {
    messages: latencies.length,
    p50Ms: percentile(latencies, 50),
    p99Ms: percentile(latencies, 99),
    maxMs: Math.max(...latencies),
  }
}
