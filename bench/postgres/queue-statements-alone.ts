import { randomUUID } from 'node:crypto'
import type { PoolClient } from 'pg'
import { queueReceiveStatements } from '../../packages/postgres/src/queue/queue-receive-statements.ts'
import { queueStatements } from '../../packages/postgres/src/queue/queue-statements.ts'
import type { BenchDatabase } from './bench-database.ts'
import type { QueueWork } from './queue-variants.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

const QUEUE = 'orders'
const VISIBILITY_TIMEOUT_MS = 30_000
const MAX_RECEIVES = 5
const RECEIVED_BYTES = 16 * 1024 * 1024
const SHARDS = Array.from({ length: 16 }, (_, shard) => shard)

interface How {
  /** The messages of a receive, and of a settlement. */
  readonly limit: number
  readonly clients: number
  /** The work of a handler, in the transaction of the settlement. */
  readonly work?: QueueWork
}

/**
 * The statements of a queue without its consumer: nothing is decoded, held or reported. No consumer of this queue can be
 * faster, so a target above the rate of this variant cannot be reached. `queue` is the variant whose tables are used.
 */
export function statementsAlone<N extends string>(
  database: BenchDatabase,
  queue: DrainVariant,
  name: N,
  how: How,
): DrainVariant<N> {
  const { schema, table, messages } = queue
  return {
    ...{ name, schema, table, messages },
    fill: (pool) => queue.fill(pool),
    async drain() {
      const pool = database.pool({ max: how.clients })
      const counts = await Promise.all(
        Array.from({ length: how.clients }, async () => {
          const client = await pool.connect()
          const count = await drained(client, schema, how)
          client.release()
          return count
        }),
      )
      return {
        published: counts.reduce((sum, count) => sum + count, 0),
        end: () => database.close(pool),
      }
    },
    left: (pool) => rowsIn(pool, table),
  }
}

async function drained(client: PoolClient, schema: string, { limit, work }: How): Promise<number> {
  const { takeUnkeyed } = queueReceiveStatements(schema)
  const { settleUnorderedBatch } = queueStatements(schema)
  for (let count = 0; ;) {
    const receipt = randomUUID()
    const values = [
      ...[QUEUE, SHARDS, MAX_RECEIVES, limit],
      ...[receipt, VISIBILITY_TIMEOUT_MS, RECEIVED_BYTES],
    ]
    const { rows } = await client.query<{ place: string | null }>(takeUnkeyed, values)
    const places = rows.map(({ place }) => place).filter((place) => place !== null)
    if (places.length === 0) return count
    if (work !== undefined) await client.query('begin')
    await client.query(settleUnorderedBatch, [QUEUE, places, places.map(() => receipt)])
    await work?.(client, places.length)
    if (work !== undefined) await client.query('commit')
    count += places.length
  }
}
