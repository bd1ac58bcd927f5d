import { rabbitmqPublisher } from '@txbox/rabbitmq'
import type { Pool } from 'pg'
import { orderOfTurn } from '../measure/rotation.ts'
import { publishBare, type BareMessage } from './bare-rabbitmq-client.ts'
import type { BenchDatabase } from './bench-database.ts'
import { RABBITMQ_URL, makeQueue } from './bench-queue.ts'
import { BACKLOG, makeBacklog } from './relay-backlog.ts'
import type { DrainVariant } from './relay-drains.ts'
import { txboxVariant } from './relay-variants.ts'
import { checkpoint } from './workspace.ts'

/** In flight: as many as the relay has, four batches of a thousand. */
const WINDOW = 4000

export interface RabbitmqRates {
  /** Messages a second, one figure a round. */
  readonly bare: number[]
  readonly txbox: number[]
}

/**
 * The relay with `rabbitmqPublisher` beside the bare client, into one quorum queue, each of them starting from no
 * connection. `undefined`: there is no RabbitMQ.
 */
export async function rabbitmqDrains(
  database: BenchDatabase,
  { rounds, messages }: { readonly rounds: number; readonly messages: number },
): Promise<RabbitmqRates | undefined> {
  const made = await makeQueue()
  if (made === undefined) return undefined
  const { name: queue, channel } = made
  const pool = database.pool({ max: 1 })
  try {
    await makeBacklog(pool, messages)
    await pool.query(`update ${BACKLOG} set topic = $1`, [queue])
    const relay = await txboxVariant(database, pool, messages, 'rabbitmq', () =>
      rabbitmqPublisher({ url: RABBITMQ_URL, exchange: '' }),
    )
    const given = await bareMessages(pool)
    const rates = { bare: [] as number[], txbox: [] as number[] }
    for (let round = -1; round < rounds; round++) {
      for (const who of orderOfTurn(['bare', 'txbox'] as const, round + 1)) {
        if (who === 'txbox') await refill(pool, relay)
        await channel.purgeQueue(queue)
        const startedAt = performance.now()
        const published =
          who === 'bare'
            ? await publishBare(RABBITMQ_URL, queue, given, WINDOW)
            : (await relay.drain()).published
        const seconds = (performance.now() - startedAt) / 1000
        const { messageCount } = await channel.checkQueue(queue)
        if (published !== messages || messageCount !== messages) {
          throw new Error(`${who}: ${published} of ${messages} published, ${messageCount} in the queue.`)
        }
        if (round >= 0) rates[who].push(messages / seconds)
      }
    }
    return rates
  } finally {
    await made.dispose()
    await database.close(pool)
  }
}

async function refill(pool: Pool, relay: DrainVariant): Promise<void> {
  await pool.query(`truncate ${relay.table}`)
  await checkpoint(pool)
  await relay.fill(pool)
  await pool.query(`vacuum analyze ${relay.table}`)
}

async function bareMessages(pool: Pool): Promise<readonly BareMessage[]> {
  const { rows } = await pool.query<BareMessage>(`select id, key, type, payload from ${BACKLOG} order by seq`)
  return rows
}
