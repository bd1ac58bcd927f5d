import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { createRelay, type Publisher } from '@txbox/relay'
import { percentile } from '../measure/statistics.ts'
import type { BenchDatabase } from './bench-database.ts'
import { anyOrder } from '../order-message.ts'

const SCHEMA = 'relay_latency'
const WARM_UP_MS = 1000

export interface Latency {
  readonly messages: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export interface LatencyOptions {
  readonly wakeup: 'poll' | 'notify'
  readonly publisher: Publisher
  /** The publisher that receives the messages. */
  readonly topic: string
  readonly messagesPerSecond: number
  readonly seconds: number
}

export interface Latencies {
  /** Milliseconds until the relay passes the message to the publisher. */
  readonly handedOver: Latency
  /** Milliseconds until the publisher reports that the broker has accepted the message. */
  readonly confirmed: Latency
}

/**
 * Measures from the answer to COMMIT, at a steady rate with random gaps: even gaps could synchronize with the relay's
 * polling. Producer and relay share this process and its core.
 */
export async function commitToBrokerLatency(
  database: BenchDatabase,
  { wakeup, publisher, topic, messagesPerSecond, seconds }: LatencyOptions,
): Promise<Latencies> {
  const producers = database.pool({ max: 4 })
  const own = database.pool({ max: 6 })
  await producers.query(`drop schema if exists ${SCHEMA} cascade`)
  await migrate(producers, { schema: SCHEMA })
  const outbox = createOutbox({ database: postgres({ schema: SCHEMA }), notify: wakeup === 'notify' })
  const committedAt = new Map<string, number>()
  const stopwatch = new Stopwatch(publisher)
  const produce = async (): Promise<void> => {
    const client = await producers.connect()
    try {
      await client.query('BEGIN')
      const { id } = await outbox.publish(client, { ...anyOrder(), topic })
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
    await using relay = createRelay({
      database: postgres({ db: own, schema: SCHEMA }),
      publisher: stopwatch,
      wakeup,
    })
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
  const since = (at: ReadonlyMap<string, number>): Latency =>
    // The relay may see a message before its producer has got the answer to COMMIT.
    latencyOf(
      [...committedAt].flatMap(([id, from]) =>
        from < measuredFrom ? [] : [Math.max(0, at.get(id)! - from)],
      ),
    )
  return { handedOver: since(stopwatch.handedOverAt), confirmed: since(stopwatch.confirmedAt) }
}

/** A publisher that records the times of its calls and of its answers. */
class Stopwatch implements Publisher {
  readonly handedOverAt = new Map<string, number>()
  readonly confirmedAt = new Map<string, number>()
  readonly ordering: 'none' | 'per-key'
  readonly #publisher: Publisher

  constructor(publisher: Publisher) {
    this.#publisher = publisher
    this.ordering = publisher.ordering ?? 'none'
  }

  async publish(...given: Parameters<Publisher['publish']>): ReturnType<Publisher['publish']> {
    this.#note(given[0], this.handedOverAt)
    const results = await this.#publisher.publish(...given)
    this.#note(given[0], this.confirmedAt)
    return results
  }

  async close(): Promise<void> {
    await this.#publisher.close?.()
  }

  #note(messages: Parameters<Publisher['publish']>[0], at: Map<string, number>): void {
    const now = performance.now()
    for (const { id } of messages) at.set(id, now)
  }
}

function latencyOf(latencies: readonly number[]): Latency {
  return {
    messages: latencies.length,
    p50Ms: percentile(latencies, 50),
    p99Ms: percentile(latencies, 99),
    maxMs: Math.max(...latencies),
  }
}
