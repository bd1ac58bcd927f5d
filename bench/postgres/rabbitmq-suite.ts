import { rabbitmqPublisher } from '@txbox/rabbitmq'
import type { Pool } from 'pg'
import { orderOfTurn } from '../measure/rotation.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import { ratesBeside } from '../report/rates-table.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from '../report/table.ts'
import type { Suite } from '../suite.ts'
import { publishBare, type BareMessage } from './bare-rabbitmq-client.ts'
import type { BenchDatabase } from './bench-database.ts'
import { RABBITMQ_URL, makeQueue } from './bench-queue.ts'
import { BACKLOG, makeBacklog } from './relay-backlog.ts'
import type { Drained, DrainVariant } from './relay-drains.ts'
import { txboxVariant } from './relay-variants.ts'
import { checkpoint } from './workspace.ts'

/** The maximum number of unconfirmed messages, as in the relay: four batches of a thousand. */
const WINDOW = 4000

const MESSAGES = 100_000

interface RabbitmqRates {
  /** Messages per second, one figure for each round. */
  readonly bare: number[]
  readonly txbox: number[]
}

/** The relay with `rabbitmqPublisher` beside the bare client. */
export function rabbitmqSuite(database: BenchDatabase): Suite {
  return {
    name: 'rabbitmq',
    async run({ rounds }) {
      const rates = await rabbitmqDrains(database, { rounds, messages: MESSAGES })
      if (rates === undefined) {
        console.log('\nrabbitmq: none found, at RABBITMQ_URL or 127.0.0.1:5672: left out')
        return []
      }
      const { bare, txbox } = rates
      const ratio = ratioOf(txbox, bare)
      console.log(
        `\nrabbitmq: draining ${whole(MESSAGES)} messages of 500 bytes and 1000 keys into a quorum queue with confirms, ` +
          `${rounds} rounds`,
      )
      console.log(
        formatTable(
          ['', 'messages/s (min–max)', 'rate ÷ bare (min–max)'],
          [
            ['bare client, messages in memory', wholeSpread(summarise(bare)), '1'],
            ['relay.drain(), rabbitmqPublisher', wholeSpread(summarise(txbox)), ratioSpread(ratio)],
          ],
        ),
      )
      return [
        {
          what: 'relay: drain rate into RabbitMQ ÷ bare client',
          bound: { atLeast: 0.8 },
          ratio,
          figures: ratesBeside(txbox, 'bare', bare),
        },
      ]
    },
  }
}

/** Publishes into one quorum queue; each side first connects. `undefined` if there is no RabbitMQ. */
async function rabbitmqDrains(
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
        const { published, end }: Drained =
          who === 'bare'
            ? { published: await publishBare(RABBITMQ_URL, queue, given, WINDOW) }
            : await relay.drain()
        // The bare client has closed its connection, too.
        await end?.()
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
