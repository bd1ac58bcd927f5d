// A process with two local consumers: one handles message by message, the other in batches. What a handler writes and the removal
// of its message commit together.
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createLocalConsumer, type LocalConsumer, type LocalInboxMessage } from '@txbox/consumer'
import type { ConnectedDatabase } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { exponentialBackoff } from '@txbox/relay'
import { clockExpression } from '../database/chaos-tables.ts'
import type { Sql } from '../database/sql.ts'
import { SUBSCRIPTIONS, withDatabase } from './database-pool.ts'
import { suffer } from './illness.ts'
import {
  LOCAL_ATTEMPTS,
  LOCAL_BATCHES,
  LOCAL_BATCH_SIZE,
  LOCAL_CONCURRENCY,
  LOCAL_POOL_SIZE,
} from './limits.ts'
import { writeInLedger } from './local-publishes.ts'
import { countEvents } from './run-consumer.ts'
import { Worker } from './worker.ts'
import { LOCAL_CONSUMERS, LOCAL_TYPE, type Change } from './worker-protocol.ts'

/** A batch that hangs is divided, and each part hangs again: its other messages must not wait for longer than a shard may stand still. */
const LONGEST_HANG_OF_BATCH_MS = 1000

const worker = new Worker()
const { draw } = worker
const { slot, engine, leaseMs, localWorkMs } = worker.config
/** The two processes differ in what users choose: the handle, and the isolation level of the handlers. */
const isFirst = slot.endsWith('1')
const clock = clockExpression(engine)
const [bookings, totals] = LOCAL_CONSUMERS

await withDatabase(worker, LOCAL_POOL_SIZE, isFirst ? 'driver' : 'kysely', work)
await worker.end()

async function work<Tx>(database: ConnectedDatabase<Tx>, sqlOf: (tx: Tx) => Sql): Promise<void> {
  const outbox = createOutbox({ database, subscriptions: SUBSCRIPTIONS })
  const options = {
    database,
    leaseMs,
    // A message that hangs may take longer. On an overloaded machine the lease is longer too.
    handleTimeoutMs: leaseMs * 2,
    pollIntervalMs: { min: 20, max: 200 },
    retry: exponentialBackoff({ attempts: LOCAL_ATTEMPTS, minMs: 50, maxMs: 500 }),
    // On MySQL and MariaDB, producers would wait for the locks on the gaps.
    ...(!isFirst && engine === 'postgres' && { isolationLevel: 'repeatable read' as const }),
  }
  await run([
    createLocalConsumer({
      ...options,
      consumer: bookings,
      concurrency: LOCAL_CONCURRENCY,
      handlers: {
        [LOCAL_TYPE]: async (tx: Tx, message: LocalInboxMessage<Change>) => {
          const sql = sqlOf(tx)
          await handle(sql, bookings, [message])
          if (message.key === undefined || !draw.chance(0.1)) return
          // Handlers publish in their transactions, too. A message without a key causes no further one.
          const id = randomUUID()
          await writeInLedger(sql, 'chaos_local', { id, producer: worker.name })
          await outbox.publish(tx as never, { id, type: LOCAL_TYPE, payload: { padding: '' } })
        },
      },
    }),
    createLocalConsumer({
      ...options,
      consumer: totals,
      concurrency: LOCAL_BATCHES,
      batch: { maxSize: LOCAL_BATCH_SIZE, lingerMs: 20 },
      handlers: {
        [LOCAL_TYPE]: (tx: Tx, messages: readonly LocalInboxMessage<Change>[]) =>
          handle(sqlOf(tx), totals, messages, LONGEST_HANG_OF_BATCH_MS),
      },
    }),
  ])
}

async function run(consumers: readonly LocalConsumer[]): Promise<void> {
  for (const consumer of consumers) {
    countEvents(worker, consumer, 'handled')
    await startPatiently(consumer)
  }
  worker.ready()
  await new Promise<void>((resolve) => {
    if (worker.ending.aborted) resolve()
    worker.ending.addEventListener('abort', () => resolve(), { once: true })
  })
  await Promise.all(consumers.map((consumer) => consumer.stop({ timeoutMs: 10_000 })))
}

/** A local consumer that begins while the database is away is started again by its supervisor; here, by itself. */
async function startPatiently(consumer: LocalConsumer): Promise<void> {
  while (!worker.ending.aborted) {
    try {
      return await consumer.start()
    } catch (error) {
      worker.failed(error)
      await pause(200)
    }
  }
}

/** Writes the effects of messages, then suffers from them: if one makes the handler fail, all effects must be rolled back. */
async function handle(
  sql: Sql,
  consumer: string,
  messages: readonly LocalInboxMessage<Change>[],
  mostMs?: number,
): Promise<void> {
  if (messages.length > 1) worker.count('batches')
  const call = randomUUID()
  for (const { id, payload } of messages) {
    await sql.query(
      `insert into chaos_local_effects (consumer, message_id, place, worker, handler_call, began_ms, ended_ms)
       values (?, ?, ?, ?, ?, ${clock}, 0)`,
      [consumer, id, payload.to ?? null, worker.name, call],
    )
  }
  // While the transaction is open, others publish and handle messages of the keys.
  if (draw.chance(0.2)) await pause(draw.integer(0, 150))
  await pause(Math.max(localWorkMs, ...messages.map(({ payload }) => payload.workMs ?? 0)))
  await Promise.all(messages.map(({ payload }) => suffer(worker, payload.ill, mostMs)))
  await sql.query(`update chaos_local_effects set ended_ms = ${clock} where handler_call = ?`, [call])
}
