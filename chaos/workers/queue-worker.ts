// A worker of the stored queue: its consumer settles each message, or all of a batch, by the first statement of the transaction
// of the effects.
import { createConsumer, type Consumer } from '@txbox/consumer'
import type { ConnectedDatabase, InboxMessage } from '@txbox/core'
import { createQueue, queueSource } from '@txbox/queue'
import { exponentialBackoff } from '@txbox/relay'
import { setTimeout as pause } from 'node:timers/promises'
import { clockExpression } from '../database/chaos-tables.ts'
import type { Sql } from '../database/sql.ts'
import { withDatabase } from './database-pool.ts'
import { suffer } from './illness.ts'
import {
  QUEUE_BATCHES,
  QUEUE_BATCH_SIZE,
  QUEUE_CONCURRENCY,
  QUEUE_POOL_SIZE,
  QUEUE_RECEIVES,
} from './limits.ts'
import { runConsumer } from './run-consumer.ts'
import { Worker } from './worker.ts'
import { QUEUE, type Change } from './worker-protocol.ts'

const worker = new Worker()
const { draw } = worker
const { slot, engine, leaseMs } = worker.config
/** The two workers differ in what users choose: the handle, the way to wake up, and batches. */
const isFirst = slot.endsWith('1')
const clock = clockExpression(engine)

await withDatabase(worker, QUEUE_POOL_SIZE, isFirst ? 'kysely' : 'driver', work)
await worker.end()

async function work<Tx>(database: ConnectedDatabase<Tx>, sqlOf: (tx: Tx) => Sql): Promise<void> {
  const queue = createQueue<Tx, Change>({
    database,
    name: QUEUE,
    visibilityTimeoutMs: leaseMs,
    maxReceives: QUEUE_RECEIVES,
    notify: isFirst && engine === 'postgres',
  })
  const options = {
    source: queueSource(queue, { pollIntervalMs: { min: 20, max: 200 } }),
    database,
    name: 'chaos-queue',
    retry: exponentialBackoff({ attempts: QUEUE_RECEIVES, minMs: 50, maxMs: 500 }),
  }
  const consumer: Consumer<InboxMessage<Change>> = isFirst
    ? createConsumer({
        ...options,
        concurrency: QUEUE_CONCURRENCY,
        handler: (tx, message) => handle(sqlOf(tx), [message]),
      })
    : createConsumer({
        ...options,
        concurrency: QUEUE_BATCHES,
        batch: { maxSize: QUEUE_BATCH_SIZE, lingerMs: 20 },
        handler: (tx, messages) => handle(sqlOf(tx), messages),
      })
  await runConsumer(worker, consumer, 'handled')
}

/** Writes the effects of messages, then suffers from them: if one makes the handler fail, all effects must be rolled back. */
async function handle(sql: Sql, messages: readonly InboxMessage<Change>[]): Promise<void> {
  if (messages.length > 1) worker.count('batches')
  const serials: number[] = []
  for (const { id, payload } of messages) serials.push(await beginEffect(sql, id, payload.to ?? null))
  // While the transaction is open, others send and receive messages of the keys.
  if (draw.chance(0.2)) await pause(draw.integer(0, 150))
  await pause(Math.max(...messages.map(({ payload }) => payload.workMs ?? 0)))
  await Promise.all(messages.map(({ payload }) => suffer(worker, payload.ill)))
  for (const serial of serials) {
    await sql.query(`update chaos_queue_effects set ended_ms = ${clock} where serial = ?`, [serial])
  }
}

async function beginEffect(sql: Sql, id: string, place: number | null): Promise<number> {
  const insert = `insert into chaos_queue_effects (message_id, place, worker, began_ms, ended_ms)
    values (?, ?, ?, ${clock}, 0)`
  const values = [id, place, worker.name]
  if (engine === 'postgres') {
    const [row] = await sql.query(`${insert} returning serial`, values)
    return Number(row?.['serial'])
  }
  await sql.query(insert, values)
  const [row] = await sql.query('select last_insert_id() as serial')
  return Number(row?.['serial'])
}
