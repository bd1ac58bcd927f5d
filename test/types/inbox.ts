import { createInbox, businessKey, type DetachedInbox, type Inbox, type InboxMessage } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import type { ControlledTransaction, Kysely, Transaction } from 'kysely'
import type { Client, Pool, PoolClient } from 'pg'
import { assertType, type Same } from './same.ts'

interface Tables {
  seats: { row: string; taken_by: string | null }
}
interface Booked {
  seat: string
}
declare const db: Kysely<Tables>
declare const trx: Transaction<Tables>
declare const controlled: ControlledTransaction<Tables>
declare const pool: Pool
declare const poolClient: PoolClient
declare const client: Client
declare const booked: InboxMessage<Booked>

// The root decides what `run` hands to the handler.
const onKysely = createInbox({ database: postgres({ db }), consumer: 'seats' })
assertType<Same<typeof onKysely, Inbox<Transaction<Tables>>>>()
const onPool = createInbox({ database: postgres({ db: pool }), consumer: 'seats' })
assertType<Same<typeof onPool, Inbox<PoolClient>>>()
const detached = createInbox({ database: postgres(), consumer: 'seats' })
assertType<Same<typeof detached, DetachedInbox<Parameters<(typeof detached)['hasProcessed']>[1]>>>()

export async function handlers(): Promise<void> {
  const ran = await onKysely.run(booked, async (tx, message, context) => {
    assertType<Same<typeof tx, Transaction<Tables>>>()
    assertType<Same<typeof message, InboxMessage<Booked>>>()
    await tx
      .updateTable('seats')
      .set({ taken_by: context.idempotencyKey })
      .where('row', '=', message.payload.seat)
      .execute()
    return { seat: message.payload.seat, at: new Date() }
  })
  if (ran.status === 'processed') assertType<Same<typeof ran.result, { seat: string; at: Date }>>()
  if (ran.status === 'duplicate') {
    assertType<Same<typeof ran.firstProcessedAt, Date>>()
    assertType<Same<typeof ran.result, { seat: string; at: string } | undefined>>()
  }
  await detached.process(trx, booked, (tx) => assertType<Same<typeof tx, Transaction<Tables>>>())
  await detached.process(controlled, booked, () => {})
  await detached.process(poolClient, booked, (tx) => assertType<Same<typeof tx, PoolClient>>())
  await detached.process(client, booked, () => {})
  // A broker's fields may be undefined.
  await detached.process(client, { id: 'm', correlationId: undefined, source: undefined }, () => {})
  const batch = await detached.processBatch(trx, [booked], async (_tx, fresh) =>
    fresh.map((m) => m.payload.seat),
  )
  assertType<Same<typeof batch.result, string[] | undefined>>()
}

export async function refused(): Promise<void> {
  // @ts-expect-error a root
  await detached.process(db, booked, () => {})
  // @ts-expect-error a pool
  await detached.process(pool, booked, () => {})
  // @ts-expect-error nothing that we know
  await detached.process({ begin: true }, booked, () => {})
  // @ts-expect-error a message without an id
  await detached.process(trx, { payload: 1 }, () => {})
  // @ts-expect-error without a root it opens no transaction
  await detached.run(booked, () => {})
  // @ts-expect-error a consumer is required
  createInbox({ database: postgres() })
  // @ts-expect-error a misspelt option
  createInbox({ database: postgres(), consumer: 'seats', retentionMS: 5 })
  // @ts-expect-error a client opens no transactions of its own
  postgres({ db: { query: 'select 1' } })
  const keyed = createInbox({
    database: postgres(),
    consumer: 'seats',
    key: businessKey((message: InboxMessage<Booked>) => [message.payload.seat, 'book']),
  })
  // @ts-expect-error the key needs another payload
  await keyed.process(trx, { id: '1', payload: { row: 1 } }, () => {})
  // @ts-expect-error the key needs a payload
  await keyed.process(trx, { id: '1' }, () => {})
}

// What a caller's own configuration leaves out arrives as undefined.
createInbox({
  database: postgres(),
  consumer: 'seats',
  key: undefined,
  retentionMs: undefined,
  inFlight: undefined,
  storeResult: undefined,
  onDuplicate: undefined,
})
export async function giveUpNever(): Promise<void> {
  await onKysely.run(booked, () => undefined, { signal: undefined, attempts: undefined })
}
