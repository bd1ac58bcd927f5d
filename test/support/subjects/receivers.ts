import { createConsumer, createLocalConsumer } from '@txbox/consumer'
import type { ConnectedDatabase, Logger } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { createQueue, queueSource } from '@txbox/queue'
import { createRelay, publishEach } from '@txbox/relay'
import type { Pool, PoolClient } from 'pg'
import { onTestFinished } from 'vitest'

export type Notify = boolean | 'auto' | undefined

export interface ReceiverOptions {
  readonly database: ConnectedDatabase<PoolClient>
  readonly pollIntervalMs?: { readonly min: number; readonly max: number }
  readonly logger?: Logger
}

/** Each part that waits for messages in a PostgreSQL database, and how a message is stored for it. */
export interface Receiver {
  readonly name: string
  /** The channel on which the part listens begins with this. */
  readonly channel: string
  /** Starts the part, which is stopped when the test has finished. @returns the payloads that it gets */
  start(options: ReceiverOptions): Promise<unknown[]>
  store(tx: PoolClient, payload: number, notify?: Notify): Promise<unknown>
}

const relay: Receiver = {
  name: 'relay',
  channel: 'txbox_outbox_',
  async start({ database, pollIntervalMs, logger }) {
    const got: unknown[] = []
    const publisher = publishEach(({ payload }) => void got.push(Number(Buffer.from(payload).toString())))
    const one = createRelay({ database, publisher, pollIntervalMs, logger, leaseMs: 60_000 })
    onTestFinished(() => one.stop())
    let leases = 0
    one.on('lease-acquired', () => leases++)
    await one.start()
    while (leases < 16) await new Promise((resolve) => setTimeout(resolve, 10))
    return got
  },
  store: (tx, payload, notify) =>
    createOutbox({ database: postgres(), ...given(notify) }).publish(tx, { topic: 't', payload }),
}

const local: Receiver = {
  name: 'local consumer',
  channel: 'txbox_local_',
  async start({ database, pollIntervalMs, logger }) {
    const got: unknown[] = []
    const one = createLocalConsumer({
      ...{ database, consumer: 'billing', pollIntervalMs, logger, leaseMs: 60_000 },
      handlers: { made: (_: PoolClient, { payload }: { payload: unknown }) => void got.push(payload) },
    })
    onTestFinished(() => one.stop())
    await one.start()
    // A drain looks at all shards, and so waits for their leases.
    await one.drain()
    return got
  },
  store: (tx, payload, notify) =>
    createOutbox({ database: postgres(), subscriptions: { made: ['billing'] }, ...given(notify) }).publish(
      tx,
      {
        ...{ type: 'made', payload },
      },
    ),
}

const queue: Receiver = {
  name: 'consumer of a queue',
  channel: 'txbox_queue_',
  async start({ database, pollIntervalMs, logger }) {
    const got: unknown[] = []
    const one = createConsumer({
      source: queueSource(createQueue({ database, name: 'orders' }), { pollIntervalMs }),
      ...{ name: 'orders', database, logger },
      handler: (_, { payload }) => void got.push(payload),
    })
    onTestFinished(() => one.stop())
    await one.start()
    return got
  },
  store: (tx, payload, notify) =>
    createQueue({ database: postgres(), name: 'orders', ...given(notify) }).send(tx, { payload }),
}

export const receivers: readonly Receiver[] = [relay, local, queue]

function given(notify: Notify): { notify?: boolean | 'auto' } {
  return notify === undefined ? {} : { notify }
}

/** Stores a message in a transaction of its own. */
export async function storeIn(
  pool: Pool,
  receiver: Receiver,
  payload: number,
  notify?: Notify,
): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await receiver.store(client, payload, notify)
    await client.query('commit')
  } finally {
    client.release()
  }
}
