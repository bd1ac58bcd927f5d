// A consumer: takes deliveries from RabbitMQ, and handles each by an inbox, together with a version buffer and a versioned
// row, in one transaction. The two workers differ in the loop: one has its own loop, the other uses `createConsumer`.
import { createInbox, type InboxMessage } from '@txbox/inbox'
import { applyVersion, createVersionBuffer } from '@txbox/versioning'
import { sql, type Kysely, type Transaction } from 'kysely'
import { consumeByHand } from './consumer-by-hand.ts'
import { consumeBySource } from './consumer-by-source.ts'
import { kyselyRoot, type ConsumerTables } from './database-pool.ts'
import { suffer } from './illness.ts'
import { CONSUMER_POOL_SIZE } from './limits.ts'
import { Worker } from './worker.ts'
import type { Change } from './worker-protocol.ts'

const worker = new Worker()
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

const consume = worker.config.slot.endsWith('1') ? consumeByHand : consumeBySource
await consume({ worker, db, inbox, effect })
await worker.end()

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

async function insertBalance(tx: Kysely<ConsumerTables>, key: string): Promise<void> {
  await tx.insertInto('chaos_balances').values({ version_key: key, version: 0, total: 0 }).execute()
}
