// A consumer: takes deliveries from RabbitMQ, and handles each by an inbox, together with a version buffer and a
// versioned row, in one transaction. It acknowledges after the commit.
import { setTimeout as pause } from 'node:timers/promises'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { createInbox, isSettled, type InboxMessage, type InboxOutcome } from '@txbox/inbox'
import { applyVersion, createVersionBuffer } from '@txbox/versioning'
import amqp, { type Channel, type ConsumeMessage } from 'amqplib'
import { sql, type Kysely, type Transaction } from 'kysely'
import { CONSUMER_POOL_SIZE } from './limits.ts'
import { kyselyRoot, type ConsumerTables } from './database-pool.ts'
import { suffer } from './illness.ts'
import { Worker } from './worker.ts'
import { WORK_QUEUE, type Change } from './worker-protocol.ts'

const PREFETCH = 24

const worker = new Worker()
const { draw, config } = worker
const { db, database } = kyselyRoot(worker, CONSUMER_POOL_SIZE)
const inbox = createInbox({ database, consumer: 'chaos' })
/** Remembers for a moment only, so that the collector has something to do. */
const brief = createInbox({ database, consumer: 'brief', retentionMs: 3000 })
const buffer = createVersionBuffer<Transaction<ConsumerTables>, string>({
  database,
  consumer: 'chaos',
  apply: async (tx, { key, from, to, payload }) => {
    await tx
      .insertInto('chaos_applied')
      .values({ version_key: key, from_version: from, message_id: payload })
      .execute()
    if (from === 0) await insertBalance(tx, key)
    await applyVersion(tx, 'chaos_balances', {
      where: { version_key: key },
      from,
      to,
      set: { total: sql<number>`total + 1` },
    })
  },
})
const inProgress = new Set<Promise<void>>()

worker.ready()
while (!worker.ending.aborted) {
  try {
    await consume()
  } catch (error) {
    worker.failed(error)
  }
  await pause(200)
}
await Promise.all(inProgress)
await db.destroy()
await worker.end()

/** Consumes until the connection ends, or the worker has to. */
async function consume(): Promise<void> {
  const connection = await amqp.connect(config.brokerUrl, { timeout: 2000 })
  const ended = new Promise<void>((resolve) => {
    connection.on('error', (error) => worker.failed(error))
    connection.on('close', () => resolve())
  })
  const channel = await connection.createChannel()
  channel.on('error', (error) => worker.failed(error))
  await channel.prefetch(PREFETCH)
  const { consumerTag } = await channel.consume(WORK_QUEUE, (delivery) => {
    if (delivery === null) return
    const handling = handle(channel, delivery).finally(() => inProgress.delete(handling))
    inProgress.add(handling)
  })
  const stopped = new Promise<void>((resolve) => worker.ending.addEventListener('abort', () => resolve()))
  if (worker.ending.aborted) return
  await Promise.race([ended, stopped])
  if (!worker.ending.aborted) return
  await channel.cancel(consumerTag)
  await Promise.all(inProgress)
  await channel.close()
  await connection.close()
}

async function handle(channel: Channel, delivery: ConsumeMessage): Promise<void> {
  try {
    const message = fromRabbitmq<Change>(delivery)
    const outcome = await (config.workerPlant === 'claim-in-another-transaction'
      ? handleWithLooseClaim(message)
      : inbox.run(message, effect))
    worker.count(outcome.status)
    if (!isSettled(outcome) || draw.chance(worker.mode.redeliver)) return giveBack(channel, delivery)
    channel.ack(delivery)
  } catch (error) {
    worker.failed(error)
    await pause(100)
    giveBack(channel, delivery)
  }
}

/** The planted bug: the claim commits before the effect does. */
async function handleWithLooseClaim(message: InboxMessage<Change>): Promise<InboxOutcome<void>> {
  const outcome = await inbox.run(message, async () => undefined)
  if (outcome.status === 'processed') await db.transaction().execute((tx) => effect(tx, message))
  return outcome
}

/** Deliveries of a channel that is gone come again by themselves. */
function giveBack(channel: Channel, delivery: ConsumeMessage): void {
  try {
    channel.nack(delivery, false, true)
  } catch (error) {
    worker.failed(error)
  }
}

async function effect(tx: Transaction<ConsumerTables>, message: InboxMessage<Change>): Promise<void> {
  await tx.insertInto('chaos_effects').values({ message_id: message.id, worker: worker.name }).execute()
  await brief.markProcessed(tx, message)
  const { versionKey, from, to, ill } = message.payload
  if (versionKey !== undefined && from !== undefined && to !== undefined) {
    await buffer.process(tx, { key: versionKey, from, to, payload: message.id })
  }
  // After the effect, so that what has been written must be rolled back.
  await suffer(worker, ill)
}

async function insertBalance(db: Kysely<ConsumerTables>, key: string): Promise<void> {
  await db.insertInto('chaos_balances').values({ version_key: key, version: 0, total: 0 }).execute()
}
