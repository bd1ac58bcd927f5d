import { createConsumer, type Consumer } from '@txbox/consumer'
import { migrate, postgres } from '@txbox/postgres'
import { createQueue, queueSource } from '@txbox/queue'
import type { Pool, PoolClient } from 'pg'
import { UNKEYED_SHARD } from '../../packages/postgres/src/queue/queue-receive-statements.ts'
import type { BenchDatabase } from './bench-database.ts'
import { BACKLOG } from './relay-backlog.ts'
import { rowsIn, type Drained, type DrainVariant } from './relay-drains.ts'
import { transaction } from './transaction.ts'

/** The number of concurrent handlers, each with its own connection. */
export const HANDLERS = 10
const PREFETCH = 100
/** The messages of a transaction. */
export const BATCH = 100
/** Where a handler does nothing, what a receive costs must be shared by many messages, as with the peers. */
export const PREFETCH_OF_NOTHING = 2000

const BY_HAND = 'queue_by_hand'
const NEXT_BY_HAND = `delete from ${BY_HAND}.jobs
  where id = (select id from ${BY_HAND}.jobs order by id limit 1 for update skip locked) returning payload`

/**
 * Starts to handle messages, and reports how many it has handled. Resolves to a function that ends it when all messages are
 * handled.
 */
export type QueueWorker = (
  onHandled: (count: number) => void,
  onError: (error: unknown) => void,
) => Promise<() => Promise<void>>

/** Runs a worker in this process until it has handled so many messages. */
export async function untilHandled(messages: number, worker: QueueWorker): Promise<Drained> {
  const finished = Promise.withResolvers<void>()
  let published = 0
  const end = await worker((count) => {
    published += count
    if (published >= messages) finished.resolve()
  }, finished.reject)
  await finished.promise
  return { published, end }
}

/** The work of a handler on so many messages: one statement, which updates as many accounts. */
export type QueueWork = (client: PoolClient, messages: number) => Promise<unknown>

/** A worker by hand: a job is deleted in the transaction of its effect. No retries, no order, no dead letters. */
export async function workerByHand(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  work: QueueWork,
): Promise<DrainVariant<'byHand'>> {
  const schema = BY_HAND
  const table = `${schema}.jobs`
  await pool.query(`drop schema if exists ${schema} cascade`)
  await pool.query(`create schema ${schema}`)
  await pool.query(
    `create table ${table} (id bigint generated always as identity primary key, payload bytea not null)`,
  )
  return {
    name: 'byHand',
    schema,
    table,
    messages,
    async fill(pool) {
      await pool.query(
        `insert into ${table} (payload) select payload from ${BACKLOG} order by seq limit ${messages}`,
      )
    },
    drain: () => untilHandled(messages, byHandWorker(database, work)),
    left: (pool) => rowsIn(pool, table),
  }
}

/** Handles jobs until there are none. */
export function byHandWorker(database: BenchDatabase, work: QueueWork): QueueWorker {
  return async (onHandled) => {
    const own = database.pool({ max: HANDLERS })
    const handling = async (): Promise<void> => {
      for (let isEmpty = false; !isEmpty;) {
        await transaction(own, async (client) => {
          const { rowCount } = await client.query(NEXT_BY_HAND)
          isEmpty = rowCount === 0
          if (!isEmpty) await work(client, 1)
        })
        if (!isEmpty) onHandled(1)
      }
    }
    const handled = Promise.all(Array.from({ length: HANDLERS }, handling))
    return async () => {
      await handled
      await database.close(own)
    }
  }
}

/**
 * The transactions of the handlers without any queue: what every queue with a transaction for each message costs at least.
 * Uses the empty table of `workerByHand`.
 */
export function transactionsAlone(
  database: BenchDatabase,
  messages: number,
  work: QueueWork,
): DrainVariant<'alone'> {
  return {
    name: 'alone',
    schema: BY_HAND,
    table: `${BY_HAND}.jobs`,
    messages,
    fill: async () => undefined,
    async drain() {
      const own = database.pool({ max: HANDLERS })
      let begun = 0
      const handling = async (): Promise<void> => {
        while (begun < messages) {
          begun += 1
          await transaction(own, (client) => work(client, 1))
        }
      }
      await Promise.all(Array.from({ length: HANDLERS }, handling))
      return { published: messages, end: () => database.close(own) }
    },
    left: async () => 0,
  }
}

/** How a consumer handles messages: effect and settlement in one transaction, or without a transaction. */
export type QueueMode = 'once' | 'batches' | 'at-least-once'

/** A consumer of the stored queue, in one process. */
export async function queueVariant<N extends string>(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  name: N,
  how: { readonly mode: QueueMode; readonly keyed: boolean; readonly work: QueueWork },
): Promise<DrainVariant<N>> {
  const schema = `queue_${name.toLowerCase()}`
  const table = `${schema}.queue`
  await pool.query(`drop schema if exists ${schema} cascade`)
  await migrate(pool, { schema })
  const columns = 'id, key, type, content_type, headers, payload'
  return {
    name,
    schema,
    table,
    messages,
    async fill(pool) {
      await pool.query(
        `insert into ${table} (topic, due_at, order_key, shard, ${columns})
         select 'orders', clock_timestamp(), ${how.keyed ? 'key, shard' : `null, ${UNKEYED_SHARD}`}, ${columns}
         from ${BACKLOG} order by seq limit ${messages}`,
      )
    },
    drain: () => untilHandled(messages, consumerWorker(database, schema, how)),
    // Handled messages of a key stay until the next receive.
    left: (pool) => rowsIn(pool, table, "due_at is distinct from 'epoch'"),
  }
}

export function consumerWorker(
  database: BenchDatabase,
  schema: string,
  how: { readonly mode: QueueMode; readonly work: QueueWork },
): QueueWorker {
  return async (onHandled, onError) => {
    const own = database.pool({ max: HANDLERS + 2 })
    const consumer = consumerOf(own, schema, how)
    consumer.on('handled', () => onHandled(1))
    consumer.on('error', ({ error }) => onError(error))
    await consumer.start()
    return async () => {
      await consumer.stop()
      await database.close(own)
    }
  }
}

function consumerOf(
  pool: Pool,
  schema: string,
  { mode, work }: { readonly mode: QueueMode; readonly work: QueueWork },
): Consumer {
  const database = postgres({ db: pool, schema })
  const source = queueSource(createQueue({ database, name: 'orders' }))
  const options = { source, name: 'bench', concurrency: HANDLERS, prefetch: PREFETCH }
  if (mode === 'at-least-once') {
    return createConsumer({
      ...options,
      concurrency: 100,
      prefetch: PREFETCH_OF_NOTHING,
      handler: async () => undefined,
    })
  }
  if (mode === 'once') {
    return createConsumer({ ...options, database, handler: (tx) => work(tx, 1) })
  }
  return createConsumer({
    ...options,
    prefetch: BATCH * HANDLERS * 2,
    database,
    batch: { maxSize: BATCH },
    handler: (tx, batch) => work(tx, batch.length),
  })
}
