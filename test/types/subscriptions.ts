import { createOutbox, type Outbox, type StoredId, type SubscribedOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import type { Transaction } from 'kysely'
import { assertType, type Same } from './same.ts'

declare const trx: Transaction<object>
const database = postgres()

const plain = createOutbox({ database })
const given = createOutbox({
  database,
  subscriptions: { 'order.placed': ['billing', 'mailer'] },
  unrouted: 'ignore',
})
const registered = createOutbox<{ orders: { id: string } }>({ database, subscriptions: 'registered' })
assertType<Same<typeof plain, Outbox>>()
assertType<Same<typeof given, SubscribedOutbox>>()

export async function producers(): Promise<void> {
  const one = await given.publish(trx, { type: 'order.placed', key: 'k', payload: { n: 1 } })
  assertType<Same<typeof one, StoredId>>()
  const many = await given.publish(trx, [
    { type: 'order.placed', payload: 1 },
    { topic: 'orders', type: 'order.placed', payload: 1, deliverAt: new Date() },
    { topic: undefined, type: 'order.placed', payload: 1 },
  ])
  assertType<Same<typeof many, readonly StoredId[]>>()
  await registered.publish(trx, { topic: 'orders', payload: { id: 'a' } })
  await registered.publish(trx, { type: 'order.placed', payload: { any: 1 } })
  // @ts-expect-error the payload of the topic
  await registered.publish(trx, { topic: 'orders', payload: { id: 1 } })
  // @ts-expect-error no such topic
  await registered.publish(trx, { topic: 'invoices', payload: { id: 'a' } })
  // @ts-expect-error `kye`
  await given.publish(trx, { type: 'order.placed', payload: 1, kye: 'k' })
  // @ts-expect-error without subscriptions, a message has a topic
  await plain.publish(trx, { type: 'order.placed', payload: 1 })
}

// @ts-expect-error a list of consumers
createOutbox({ database, subscriptions: { 'order.placed': 'billing' } })
// @ts-expect-error no such word
createOutbox({ database, subscriptions: 'all' })
// @ts-expect-error no such answer
createOutbox({ database, subscriptions: 'registered', unrouted: 'drop' })
// @ts-expect-error without subscriptions
createOutbox({ database, unrouted: 'ignore' })
