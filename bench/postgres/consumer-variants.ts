import { createConsumer, type Consumer } from '@txbox/consumer'
import { createInbox, type InboxMessage } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { fromRabbitmq, rabbitmqSource } from '@txbox/rabbitmq'
import amqp, { type ConsumeMessage } from 'amqplib'
import type { Pool, PoolClient } from 'pg'
import { anyAccount, createWorkspace, creditStatement } from './workspace.ts'
import { RABBITMQ_URL } from './bench-queue.ts'

/** The handlers at a time, each with a connection. */
export const HANDLERS = 10
const PREFETCH = 100
const BATCH = 100

/** One way to handle the messages of a queue. */
export interface ConsumerVariant<N extends string> {
  readonly name: N
  /** Connects, and handles this many messages until the broker has processed their acknowledgements. */
  drain(queue: string, messages: number): Promise<void>
}

/** `amqplib` with the same prefetch, which acknowledges each delivery at once. */
export const bareNothing: ConsumerVariant<'bare'> = {
  name: 'bare',
  drain: (queue, messages) => drainBare(queue, { messages, prefetch: PREFETCH }, () => undefined),
}

export const consumerOfNothing: ConsumerVariant<'consumer'> = {
  name: 'consumer',
  drain: (queue, messages) =>
    drainConsumer(
      createConsumer({
        source: sourceOf(queue),
        name: 'bench',
        concurrency: HANDLERS,
        prefetch: PREFETCH,
        handler: async () => undefined,
      }),
      messages,
    ),
}

/** The same loop by hand: `inbox.run` around one update, and the acknowledgement after it. */
export async function inboxByHand(pool: Pool): Promise<ConsumerVariant<'byHand'>> {
  const { inbox, credit } = await workIn(pool, 'consumer_by_hand')
  return {
    name: 'byHand',
    drain: (queue, messages) =>
      drainBare(queue, { messages, prefetch: HANDLERS }, (raw) =>
        inbox.run(fromRabbitmq(raw), (tx) => credit(tx, [anyAccount()])),
      ),
  }
}

export async function consumerWithInbox(pool: Pool): Promise<ConsumerVariant<'inbox'>> {
  const { inbox, credit } = await workIn(pool, 'consumer_inbox')
  return {
    name: 'inbox',
    drain: (queue, messages) =>
      drainConsumer(
        createConsumer({
          source: sourceOf(queue),
          inbox,
          concurrency: HANDLERS,
          handler: (tx) => credit(tx, [anyAccount()]),
        }),
        messages,
      ),
  }
}

export async function consumerInBatches(pool: Pool): Promise<ConsumerVariant<'batches'>> {
  const { inbox, credit } = await workIn(pool, 'consumer_batches')
  return {
    name: 'batches',
    drain: (queue, messages) =>
      drainConsumer(
        createConsumer({
          source: sourceOf(queue),
          inbox,
          concurrency: 4,
          prefetch: BATCH * 8,
          batch: { maxSize: BATCH, lingerMs: 50 },
          handler: (tx, batch) =>
            credit(
              tx,
              batch.map(() => anyAccount()),
            ),
        }),
        messages,
      ),
  }
}

/** A consumer with an inbox, as it waits for messages. */
export async function idleConsumer(pool: Pool, queue: string): Promise<Consumer> {
  const { inbox } = await workIn(pool, 'consumer_idle')
  return createConsumer({ source: sourceOf(queue), inbox, handler: () => undefined })
}

async function workIn(pool: Pool, schema: string) {
  await pool.query(`drop schema if exists ${schema} cascade`)
  await createWorkspace(pool, schema)
  const one = creditStatement(schema)
  // Locks the accounts in one order, so that batches do not deadlock.
  const many = `with credited as materialized (
      select a.id, c.credits from ${schema}.accounts as a
      join (select id, count(*) as credits from unnest($1::int[]) as id group by id) as c using (id)
      order by a.id for update of a
    )
    update ${schema}.accounts set balance = balance + credits
    from credited
    where accounts.id = credited.id`
  return {
    inbox: createInbox<PoolClient, InboxMessage>({
      database: postgres({ db: pool, schema }),
      consumer: 'bench',
    }),
    credit: (tx: PoolClient, accounts: readonly number[]) =>
      accounts.length === 1 ? tx.query(one, [accounts[0]]) : tx.query(many, [accounts]),
  }
}

function sourceOf(queue: string) {
  return rabbitmqSource({ url: RABBITMQ_URL, queue, keepsRejected: true, countsDeliveries: true })
}

async function drainConsumer(consumer: Consumer, messages: number): Promise<void> {
  const finished = Promise.withResolvers<void>()
  let handled = 0
  consumer.on('handled', ({ outcome }) => {
    handled += 1
    if (outcome !== 'processed') finished.reject(new Error(`A message is ${outcome}.`))
    if (handled === messages) finished.resolve()
  })
  for (const event of ['error', 'retried'] as const) {
    consumer.on(event, ({ error }) => finished.reject(error as Error))
  }
  await consumer.start()
  await finished.promise
  await consumer.stop()
}

async function drainBare(
  queue: string,
  { messages, prefetch }: { readonly messages: number; readonly prefetch: number },
  handle: (raw: ConsumeMessage) => unknown,
): Promise<void> {
  const connection = await amqp.connect(RABBITMQ_URL)
  const channel = await connection.createChannel()
  await channel.prefetch(prefetch)
  const finished = Promise.withResolvers<void>()
  let handled = 0
  const settle = async (raw: ConsumeMessage | null): Promise<void> => {
    if (raw === null) throw new Error('The broker has cancelled the consumer.')
    await handle(raw)
    channel.ack(raw)
    handled += 1
    if (handled === messages) finished.resolve()
  }
  const { consumerTag } = await channel.consume(queue, (raw) => void settle(raw).catch(finished.reject))
  await finished.promise
  // A quorum queue that is behind forgets acknowledgements when their channel closes, but not when it has answered these.
  await channel.cancel(consumerTag)
  await channel.checkQueue(queue)
  await channel.close()
  await connection.close()
}
