// A worker of the stored queue: its consumer settles each message by the first statement of the transaction of the effect.
import { createConsumer } from '@txbox/consumer'
import type { ConnectedDatabase, InboxMessage } from '@txbox/core'
import { createQueue, queueSource } from '@txbox/queue'
import { exponentialBackoff } from '@txbox/relay'
import { setTimeout as pause } from 'node:timers/promises'
import { clockExpression } from '../database/chaos-tables.ts'
import type { Sql } from '../database/sql.ts'
import { withQueueDatabase } from './database-pool.ts'
import { suffer } from './illness.ts'
import { QUEUE_CONCURRENCY, QUEUE_POOL_SIZE, QUEUE_RECEIVES } from './limits.ts'
import { Worker } from './worker.ts'
import { QUEUE, type Change } from './worker-protocol.ts'

const worker = new Worker()
const { draw } = worker
const { slot, engine, leaseMs } = worker.config
/** The two workers differ in what users choose: the handle, and the way to wake up. */
const isFirst = slot.endsWith('1')
const clock = clockExpression(engine)

await withQueueDatabase(worker, QUEUE_POOL_SIZE, isFirst ? 'kysely' : 'driver', work)
await worker.end()

async function work<Tx>(database: ConnectedDatabase<Tx>, sqlOf: (tx: Tx) => Sql): Promise<void> {
  const queue = createQueue<Tx, Change>({
    database,
    name: QUEUE,
    visibilityTimeoutMs: leaseMs,
    maxReceives: QUEUE_RECEIVES,
    notify: isFirst && engine === 'postgres',
  })
  const consumer = createConsumer({
    source: queueSource(queue, { pollIntervalMs: { min: 20, max: 200 } }),
    database,
    name: 'chaos-queue',
    concurrency: QUEUE_CONCURRENCY,
    retry: exponentialBackoff({ attempts: QUEUE_RECEIVES, minMs: 50, maxMs: 500 }),
    handler: (tx, message) => handle(sqlOf(tx), message),
  })
  consumer.on('handled', ({ outcome }) => worker.count(outcome === 'processed' ? 'handled' : outcome))
  consumer.on('retried', ({ error }) => {
    worker.count('retried')
    worker.failed(error)
  })
  consumer.on('lost', () => worker.count('lost receipts'))
  consumer.on('dead-lettered', () => worker.count('dead letters'))
  consumer.on('unavailable', ({ error }) => worker.failed(error))
  consumer.on('error', ({ error }) => worker.failed(error))
  await consumer.start()
  worker.ready()
  await new Promise<void>((resolve) =>
    worker.ending.addEventListener('abort', () => resolve(), { once: true }),
  )
  await consumer.stop({ timeoutMs: 10_000 })
}

/** What is written must be rolled back when the message makes its handler fail. */
async function handle(sql: Sql, { id, payload }: InboxMessage<Change>): Promise<void> {
  const serial = await beginEffect(sql, id, payload.to ?? null)
  // While the transaction is open, others send and receive messages of the key.
  if (draw.chance(0.2)) await pause(draw.integer(0, 150))
  await suffer(worker, payload.ill)
  await sql.query(`update chaos_queue_effects set ended_ms = ${clock} where serial = ?`, [serial])
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
