import { onTestFinished } from 'vitest'
import { createConsumer, type Consumer, type ConsumerContext, type InboxMessage } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { queueSource, type QueueOptions } from '@txbox/queue'
import { listen, type ConsumerUnderTest } from './consumer-under-test.ts'
import { QueueUnderTest } from './queue-under-test.ts'
import type { Root, Target } from '../engines/target.ts'
import { until } from '../worlds/until.ts'

export type QueueHandler = (tx: TransactionHandle, message: InboxMessage, context: ConsumerContext) => unknown

/** Consumers of one queue, whose effects are rows: the name of the queue, the key, and the id of the message. */
export class QueueConsumers {
  readonly events: ConsumerUnderTest['events'] = []
  readonly subject: QueueUnderTest
  /** The calls of handlers: the id, and the count of the delivery. */
  readonly runs: { readonly id: string; readonly deliveries: number; readonly at: number }[] = []

  readonly #target: Target
  readonly #root: Root
  readonly #queueOptions: Partial<QueueOptions>

  constructor(target: Target, root: Root, options: Partial<QueueOptions> = {}) {
    this.#target = target
    this.#root = root
    this.#queueOptions = options
    this.subject = new QueueUnderTest(target, root, options)
  }

  /** Starts a consumer: each handler has its effect first. */
  start(
    handler: QueueHandler,
    options: object = {},
    through: Pick<Root, 'database'> = this.#root,
  ): Promise<Consumer> {
    return this.#started({
      ...this.#options(through),
      handler: async (tx: TransactionHandle, message: InboxMessage, context: ConsumerContext) => {
        await this.#handle(tx, message, context)
        return handler(tx, message, context)
      },
      ...options,
    })
  }

  startBatch(
    handler: (tx: TransactionHandle, messages: readonly InboxMessage[]) => unknown,
    options: object = {},
  ): Promise<Consumer> {
    return this.#started({
      ...this.#options(this.#root),
      ...{ concurrency: 1, batch: { maxSize: 20, lingerMs: 100 } },
      handler: async (
        tx: TransactionHandle,
        messages: readonly InboxMessage[],
        contexts: readonly ConsumerContext[],
      ) => {
        for (const [n, message] of messages.entries()) await this.#handle(tx, message, contexts[n]!)
        return handler(tx, messages)
      },
      ...options,
    })
  }

  effects(id: string): Promise<number> {
    return this.#target.effects(this.#effectOf(id))
  }

  /** The ids of all effects, in the order in which they were made. */
  async effectsInOrder(): Promise<string[]> {
    const rows = await this.#target.sql('select name from effects where name like ? order by seq', [
      `${this.subject.queue.name} %`,
    ])
    return rows.map(({ name }) => String(name).slice(this.subject.queue.name.length + 1))
  }

  count(event: string): number {
    return this.events.filter((one) => one.event === event).length
  }

  async heard(event: string, count = 1): Promise<void> {
    await until(
      async () => this.count(event) >= count,
      () => `${count} ${event}: ${JSON.stringify(this.events.map((one) => [one.event, one.id]))}`,
    )
  }

  async empty(): Promise<void> {
    await until(
      async () => (await this.subject.size()) === 0,
      async () => `the queue is empty, not ${await this.subject.size()}`,
    )
  }

  /** Ends the visibility timeout of the messages of a key, without waiting for transactions of other keys. */
  async expire(key: string): Promise<void> {
    const past =
      this.#target.engine === 'postgres'
        ? "clock_timestamp() - interval '1 second'"
        : 'utc_timestamp(6) - interval 1 second'
    const { subject } = this
    const rows = await subject.sql(
      `select place from ${subject.table} where topic = ? and order_key = '${key}'`,
    )
    for (const { place } of rows) {
      await this.#target.sql(`update ${subject.table} set due_at = ${past} where place = ?`, [String(place)])
    }
  }

  #effectOf(id: string): string {
    return `${this.subject.queue.name} ${id}`
  }

  async #handle(tx: TransactionHandle, { id }: InboxMessage, { deliveries }: ConsumerContext): Promise<void> {
    this.runs.push({ id, deliveries, at: performance.now() })
    await this.#target.effect(tx, this.#effectOf(id))
  }

  readonly #options = (through: Pick<Root, 'database'>): object => ({
    source: queueSource(this.subject.twin(through, this.#queueOptions), {
      pollIntervalMs: { min: 5, max: 20 },
    }),
    ...{
      database: through.database,
      name: 'orders',
      logger: false,
      retry: { attempts: 10, delayMs: () => 10 },
    },
  })

  async #started(options: object): Promise<Consumer> {
    const consumer = createConsumer(options as never)
    listen(consumer, this.events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    return consumer
  }
}
