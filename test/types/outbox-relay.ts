import { createOutbox, type MessageOf, type NewMessage, type Outbox, type StoredId } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { createRelay, exponentialBackoff, publishEach, type Publisher, type RelayEvents } from '@txbox/relay'
import type { Kysely, Transaction } from 'kysely'
import type { Pool } from 'pg'
import { assertType, type Same } from './same.ts'

interface Tables {
  seats: { row: string }
}
declare const db: Kysely<Tables>
declare const trx: Transaction<Tables>
declare const pool: Pool

const untyped = createOutbox({ database: postgres() })
const typed = createOutbox<{ 'seat.booked': { seat: string }; 'seat.freed': { seat: string; by: string } }>({
  database: postgres({ db }),
})

export async function producers(): Promise<void> {
  const one = await untyped.publish(trx, { topic: 'anything', payload: { n: 1 }, key: undefined })
  assertType<Same<typeof one, StoredId>>()
  const many = await untyped.publish(trx, [
    { topic: 'a', payload: new Uint8Array() },
    { topic: 'b', payload: 'text', contentType: 'text/plain' },
  ])
  assertType<Same<typeof many, readonly StoredId[]>>()
  assertType<Same<StoredId, { readonly id: string; readonly duplicate: boolean }>>()
  const once = createOutbox({
    database: postgres(),
    deduplication: { windowMs: 60_000, contentBased: true, scope: 'key', contentMatch: undefined },
  })
  await once.publish(trx, { topic: 'a', payload: 1, deduplicationId: undefined })
  await once.publish(trx, [{ topic: 'a', payload: 1, deduplicationId: 'a' }])
  // @ts-expect-error no such scope
  createOutbox({ database: postgres(), deduplication: { scope: 'topic' } })
  // @ts-expect-error an id is text
  await once.publish(trx, { topic: 'a', payload: 1, deduplicationId: 7 })
  await typed.publish(trx, [
    { topic: 'seat.booked', payload: { seat: 'A1' } },
    { topic: 'seat.freed', payload: { seat: 'A1', by: 'nobody' } },
  ])
  // @ts-expect-error a field of the payload is missing
  await typed.publish(trx, { topic: 'seat.freed', payload: { seat: 'A1' } })
  // @ts-expect-error no such topic
  await typed.publish(trx, { topic: 'seat.sold', payload: { seat: 'A1' } })
  // @ts-expect-error a root
  await untyped.publish(db, { topic: 'a', payload: 1 })
  // @ts-expect-error a pool
  await untyped.publish(pool, { topic: 'a', payload: 1 })
}

/** The run-time checks would refuse each of these fields. */
export async function misspelt(): Promise<void> {
  // @ts-expect-error `kye`
  await untyped.publish(trx, { topic: 'a', payload: 1, kye: 'k' })
  // @ts-expect-error `keys`, which is the name of a method of arrays
  await untyped.publish(trx, { topic: 'a', payload: 1, keys: 'k' })
  await untyped.publish(trx, [
    { topic: 'a', payload: 1, key: 'k' },
    // @ts-expect-error `deliverAT`
    { topic: 'a', payload: 1, deliverAT: new Date() },
  ])
  // @ts-expect-error `kye`
  await typed.publish(trx, { topic: 'seat.booked', payload: { seat: 'A1' }, kye: 'k' })
  // @ts-expect-error a field that the payload of the topic does not have
  await typed.publish(trx, { topic: 'seat.booked', payload: { seat: 'A1', by: 'nobody' } })
}

/** Code around an outbox passes messages whose type is a parameter, or one message or several. */
export class Events<Topics, M extends NewMessage> {
  declare readonly outbox: Outbox<Topics>
  async store(message: MessageOf<Topics>, own: M, either: NewMessage | readonly NewMessage[]): Promise<void> {
    await this.outbox.publish(trx, message)
    await untyped.publish(trx, own)
    await untyped.publish(trx, { topic: 'a', payload: own.payload })
    const many = await untyped.publish(trx, [own, own])
    assertType<Same<typeof many, readonly StoredId[]>>()
    const oneOrMore = await untyped.publish(trx, either)
    assertType<Same<typeof oneOrMore, StoredId | readonly StoredId[]>>()
  }
}

interface Placed {
  readonly kind: 'placed'
  readonly cents: number
}
interface Topics {
  orders: Placed
  seats: { seat: string }
}
declare const ofTopics: Outbox<Topics>

/** A double of an outbox declares its parameter as one message or an array. */
export class Recorded implements Outbox {
  readonly messages: NewMessage[] = []
  async publish(_tx: object, message: NewMessage | readonly NewMessage[]): Promise<never> {
    this.messages.push(...(Array.isArray(message) ? message : [message]))
    return {} as never
  }
}
export const double: Outbox = {
  publish: async (_tx: unknown, message: NewMessage | readonly NewMessage[]) => ({ message }) as never,
}
export class Logged<T> implements Outbox<T> {
  declare readonly inner: Outbox<T>
  publish: Outbox<T>['publish'] = (tx, message) => this.inner.publish(tx, message)
}

/** An outbox may accept more than a function needs. */
export const anyTopic: Outbox<Topics> = untyped
export const fewer: Outbox<{ orders: Placed }> = ofTopics
// @ts-expect-error another payload
export const other: Outbox<{ orders: { euros: number } }> = ofTopics

export async function shapes(rows: readonly Placed[], isLarge: boolean): Promise<void> {
  const mapped = await ofTopics.publish(
    trx,
    rows.map((payload) => ({ topic: 'orders', payload })),
  )
  assertType<Same<typeof mapped, readonly StoredId[]>>()
  await ofTopics.publish(trx, { topic: 'orders', payload: { kind: 'placed', cents: 5 } })
  await ofTopics.publish(trx, [{ topic: 'seats', payload: { seat: 'A1' } }] as const)
  await untyped.publish(trx, { topic: 'a', payload: 1, ...(isLarge && { key: 'k' }) })
  await untyped.publish(trx, isLarge ? { topic: 'a', payload: 1 } : [{ topic: 'a', payload: 1 }])
}

export async function relays(): Promise<void> {
  const publisher: Publisher = publishEach((message) => [message.topic, message.text()], { concurrency: 5 })
  await using relay = createRelay({
    database: postgres({ db: pool, schema: 'messaging' }),
    publisher,
    batchSize: undefined,
    retry: exponentialBackoff({ attempts: 3 }),
    pollIntervalMs: { min: 5, max: 50 },
  })
  const off = relay.on('parked', (event) => assertType<Same<typeof event, RelayEvents['parked']>>())
  off()
  const counts = await relay.drain()
  assertType<Same<typeof counts, { published: number; parked: number; deadLettered: number }>>()
  // @ts-expect-error no such event
  relay.on('moved', () => {})
  // @ts-expect-error a relay needs connections of its own
  createRelay({ database: postgres(), publisher })
  // @ts-expect-error a publisher answers for each message
  createRelay({ database: postgres({ db }), publisher: { publish: async () => 'ok' } })
  const { applied } = await migrate(db, { schema: 'messaging' })
  // @ts-expect-error a database instead of its `db`
  await migrate(postgres({ db: pool }))
  assertType<Same<typeof applied, readonly string[]>>()
}
