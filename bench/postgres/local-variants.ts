import { portsKey } from '@txbox/core'
import type { Lease, LocalMessage, LocalShard } from '@txbox/core/ports'
import { createLocalConsumer, atLeastOnce, type LocalConsumer } from '@txbox/consumer'
import { migrate, postgres } from '@txbox/postgres'
import type { Pool, PoolClient } from 'pg'
import type { BenchDatabase } from './bench-database.ts'
import {
  BATCH,
  HANDLERS,
  untilHandled,
  type QueueMode,
  type QueueWork,
  type QueueWorker,
} from './queue-variants.ts'
import { BACKLOG } from './relay-backlog.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

const MIB = 1_048_576
const CONSUMER = 'bench'
/** The type of the messages of the backlog. */
const TYPE = 'order.placed'
const SHARDS = Array.from({ length: 16 }, (_, shard) => shard)
/** The loops of the consumer use as many connections. */
const LOOPS = 4
/** The handlers that do nothing and run at the same time. */
const HANDLERS_OF_NOTHING = 100

interface How {
  readonly mode: QueueMode
  readonly keyed: boolean
  readonly work: QueueWork
}

/** A local consumer, in one process. */
export async function localVariant<N extends string>(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  name: N,
  how: How,
): Promise<DrainVariant<N>> {
  const schema = `local_${name.toLowerCase()}`
  const table = `${schema}.local_outbox`
  await pool.query(`drop schema if exists ${schema} cascade`)
  await migrate(pool, { schema })
  return {
    ...{ name, schema, table, messages },
    async fill(pool) {
      await pool.query(
        `insert into ${table} (consumer, shard, id, key, type, content_type, headers, payload)
         select '${CONSUMER}', shard, id, ${how.keyed ? 'key' : 'null'}, '${TYPE}', content_type, headers, payload
         from ${BACKLOG} order by seq limit ${messages}`,
      )
    },
    drain: () => untilHandled(messages, localWorker(database, schema, how)),
    left: (pool) => rowsIn(pool, table),
  }
}

export function localWorker(
  database: BenchDatabase,
  schema: string,
  how: Pick<How, 'mode' | 'work'>,
): QueueWorker {
  return async (onHandled, onError) => {
    const own = database.pool({ max: HANDLERS + LOOPS })
    const consumer = consumerOf(own, schema, how)
    consumer.on('handled', () => onHandled(1))
    consumer.on('error', ({ error }) => onError(error))
    consumer.on('retried', ({ error }) => onError(error))
    await consumer.start()
    return async () => {
      await consumer.stop()
      await database.close(own)
    }
  }
}

function consumerOf(pool: Pool, schema: string, { mode, work }: Pick<How, 'mode' | 'work'>): LocalConsumer {
  const options = { database: postgres({ db: pool, schema }), consumer: CONSUMER, concurrency: HANDLERS }
  if (mode === 'at-least-once') {
    return createLocalConsumer({
      ...options,
      concurrency: HANDLERS_OF_NOTHING,
      handlers: { [TYPE]: atLeastOnce(async () => undefined) },
    })
  }
  if (mode === 'once') {
    return createLocalConsumer({ ...options, handlers: { [TYPE]: (tx: PoolClient) => work(tx, 1) } })
  }
  return createLocalConsumer({
    ...options,
    batch: { maxSize: BATCH },
    handlers: { [TYPE]: (tx: PoolClient, batch: readonly unknown[]) => work(tx, batch.length) },
  })
}

interface AloneOptions {
  /** The number of messages of one transaction, or of one settlement. */
  readonly limit: number
  /** The work of a transaction. Without it, the messages are settled as those of at-least-once handlers are. */
  readonly work?: QueueWork | undefined
}

/**
 * The statements of a local consumer without the consumer: nothing is decoded, held or reported, and the rows are known. No local
 * consumer can be faster, so a target above the rate of this variant cannot be reached. `local` is the variant whose tables are used.
 */
export function localStatementsAlone<N extends string>(
  database: BenchDatabase,
  local: DrainVariant,
  name: N,
  { limit, work }: AloneOptions,
): DrainVariant<N> {
  const { schema, table, messages } = local
  return {
    ...{ name, schema, table, messages },
    fill: (pool) => local.fill(pool),
    async drain() {
      const pool = database.pool({ max: HANDLERS + LOOPS })
      const ports = postgres({ db: pool, schema })[portsKey]
      const store = ports.local({ statementTimeoutMs: 60_000 })
      const leases = ports.leases()
      const names = SHARDS.map((shard) => `local/${CONSUMER}/${shard}`)
      const held = await leases.acquire(names, { owner: 'bench', ttlMs: 600_000, limit: names.length })
      const batches: Batch[] = []
      for (const [shard, leaseName] of names.entries()) {
        const at = { consumer: CONSUMER, shard }
        const lease = held.find((one) => one.name === leaseName)!
        const how = { after: undefined, without: [] }
        const { messages } = await store.read(at, { messages: 100_000, bytes: 256 * MIB }, how)
        for (let n = 0; n < messages.length; n += limit) {
          batches.push({ at, lease, rows: messages.slice(n, n + limit) })
        }
      }
      const handle = async ({ at, lease, rows }: Batch): Promise<unknown> =>
        work === undefined
          ? store.settle(lease, at, { accepted: rows, refused: [], behind: [] })
          : ports.transact(async (tx, session) => {
              await store.lock(session, lease, at, rows)
              await work(tx as PoolClient, rows.length)
              await store.remove(session, at, rows)
            }, {})
      let published = 0
      const client = async (): Promise<void> => {
        for (let next = batches.pop(); next !== undefined; next = batches.pop()) {
          await handle(next)
          published += next.rows.length
        }
      }
      await Promise.all(Array.from({ length: HANDLERS }, client))
      return {
        published,
        async end() {
          await leases.release(held)
          await leases.close()
          await database.close(pool)
        },
      }
    },
    left: (pool) => rowsIn(pool, table),
  }
}

interface Batch {
  readonly at: LocalShard
  readonly lease: Lease
  readonly rows: readonly LocalMessage[]
}
