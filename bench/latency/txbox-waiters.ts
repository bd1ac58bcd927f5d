import { createLocalConsumer } from '@txbox/consumer'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { createRelay, publishEach } from '@txbox/relay'
import { anyOrder } from '../order-message.ts'
import type { Waiter } from './waiter.ts'

/** A database with tables of its own, and a pool for those who wait and another for those who send. */
export interface WaiterDatabase {
  // oxlint-disable-next-line typescript/no-explicit-any -- the transactions of each driver
  readonly waiting: ConnectedDatabase<any>
  // oxlint-disable-next-line typescript/no-explicit-any -- the transactions of each driver
  readonly sending: ConnectedDatabase<any>
  close(): Promise<void>
}

export type MakeDatabase = (name: string, connections: number) => Promise<WaiterDatabase>

/** The waiters of txbox: a relay, a local consumer, and twenty local consumers of which one receives the messages. */
export function txboxWaiters(make: MakeDatabase): readonly Waiter[] {
  return [relayWaiter(make), consumersWaiter(make, 1), consumersWaiter(make, 20)]
}

function relayWaiter(make: MakeDatabase): Waiter {
  return {
    name: 'relay',
    async start(got) {
      const database = await make('wait_relay', 8)
      const outbox = createOutbox({ database: database.sending })
      const relay = createRelay({ database: database.waiting, publisher: publishEach(() => got()) })
      await relay.start()
      return {
        async send() {
          await database.sending.transact((tx) => outbox.publish(tx as TransactionHandle, anyOrder()))
        },
        async stop() {
          await relay.stop()
          await database.close()
        },
      }
    },
  }
}

function consumersWaiter(make: MakeDatabase, count: number): Waiter {
  const names = Array.from({ length: count }, (_, n) => `consumer-${n}`)
  const title = count === 1 ? 'one local consumer' : `${count} local consumers`
  return {
    name: title,
    async start(got) {
      const database = await make(`wait_local_${count}`, 10 + count)
      const outbox = createOutbox({
        database: database.sending,
        subscriptions: { 'order.paid': [names[0]!] },
      })
      const consumers = names.map((consumer) =>
        createLocalConsumer({
          database: database.waiting,
          consumer,
          handlers: { 'order.paid': () => got() },
        }),
      )
      for (const consumer of consumers) await consumer.start()
      return {
        async send() {
          const { type, key, payload } = anyOrder()
          await database.sending.transact((tx) =>
            outbox.publish(tx as TransactionHandle, { type, key, payload }),
          )
        },
        async stop() {
          await Promise.all(consumers.map((consumer) => consumer.stop()))
          await database.close()
        },
      }
    },
  }
}
