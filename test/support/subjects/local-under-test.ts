import { onTestFinished } from 'vitest'
import type { ConsumerContext, ConsumerEvents } from '@txbox/consumer'
import { LocalRows } from './local-rows.ts'
import { listen, type ConsumerUnderTest } from './consumer-under-test.ts'
import {
  atLeastOnce,
  createLocalConsumer,
  createLocalOutbox,
  localDeadLetters,
  type LocalBatchHandler,
  type LocalConsumer,
  type LocalDeadLetters,
  type LocalHandler,
  type LocalMessage,
  type LocalOutbox,
  type NewLocalMessage,
} from './local-parts.ts'
import type { OpenTransaction, Root, Target } from '../engines/target.ts'
import { until } from '../worlds/until.ts'

/** The type of messages whose type is of no interest to the test. */
export const MADE = 'made'

/** A message whose payload is of no interest to the test. */
export type Published = Partial<NewLocalMessage>

/** One call of a handler. */
export interface LocalRun {
  readonly consumer: string
  readonly id: string
  readonly key: string | undefined
  readonly deliveries: number
  readonly localRetries: number
  readonly at: number
  readonly context: ConsumerContext
  readonly message: LocalMessage
}

type Through = Pick<Root, 'database'>
type Handlers = LocalHandler | Readonly<Record<string, LocalHandler>>
type Event = ConsumerUnderTest['events'][number]

/**
 * A service with local consumers, whose names are its own, so that tests do not see each other's messages. The effect of a
 * handler is a row: the name of the consumer, and the id of the message.
 */
export class LocalUnderTest extends LocalRows {
  readonly outbox: LocalOutbox
  readonly deadLetters: LocalDeadLetters
  readonly runs: LocalRun[] = []
  /** Two handlers of one consumer and key at the same time. */
  readonly violations: string[] = []
  readonly #root: Root
  readonly #events = new Map<string, Event[]>()
  readonly #running = new Map<string, string>()

  /** @param consumers the subscribers of the type `made`, or the subscribers of each type */
  constructor(
    target: Target,
    root: Root,
    consumers: readonly string[] | Readonly<Record<string, readonly string[]>> = ['billing'],
    options: object = {},
  ) {
    super(target)
    this.#root = root
    const byType = Array.isArray(consumers) ? { [MADE]: consumers } : consumers
    const subscriptions = Object.fromEntries(
      Object.entries(byType as Readonly<Record<string, readonly string[]>>).map(([type, names]) => [
        type,
        names.map((name) => this.name(name)),
      ]),
    )
    this.outbox = createLocalOutbox({ database: root.database, subscriptions, ...options })
    this.deadLetters = localDeadLetters(root.database)
  }

  /** Publishes each message by a call of its own, all in one transaction. @returns their ids */
  async publish(...messages: readonly Published[]): Promise<string[]> {
    const transaction = await this.#root.begin()
    try {
      const ids: string[] = []
      for (const message of messages) ids.push(await this.publishIn(transaction, message))
      await transaction.commit()
      return ids
    } catch (error) {
      await transaction.rollback().catch(() => undefined)
      throw error
    }
  }

  /** Publishes by one call. @returns the ids */
  async publishTogether(messages: readonly Published[]): Promise<string[]> {
    const transaction = await this.#root.begin()
    try {
      const stored = await this.outbox.publish(transaction.tx, messages.map(withDefaults))
      await transaction.commit()
      return stored.map(({ id }) => id)
    } catch (error) {
      await transaction.rollback().catch(() => undefined)
      throw error
    }
  }

  /** Publishes in a transaction that the caller ends. */
  async publishIn({ tx }: Pick<OpenTransaction, 'tx'>, message: Published): Promise<string> {
    return (await this.outbox.publish(tx, withDefaults(message))).id
  }

  /** Starts a consumer. Each handler has its effect first. */
  start(
    consumer: string,
    handlers: Handlers = () => undefined,
    options: object = {},
    through: Through = this.#root,
  ): Promise<LocalConsumer> {
    return this.started(this.create(consumer, handlers, options, through))
  }

  /** Creates a consumer that is stopped at the end of the test. */
  create(
    consumer: string,
    handlers: Handlers = () => undefined,
    options: object = {},
    through: Through = this.#root,
  ): LocalConsumer {
    const byType = typeof handlers === 'function' ? { [MADE]: handlers } : handlers
    const wrapped = Object.entries(byType).map(([type, handler]): [string, LocalHandler] => [
      type,
      this.#withEffect(consumer, handler),
    ])
    return this.created(consumer, Object.fromEntries(wrapped), options, through)
  }

  /** Starts a consumer whose handlers have no transaction, and no effect of their own. */
  startAtLeastOnce(
    consumer: string,
    handler: (message: LocalMessage, context: ConsumerContext) => unknown,
    options: object = {},
    through: Through = this.#root,
  ): Promise<LocalConsumer> {
    const marked = atLeastOnce((message, context) =>
      this.#recorded(consumer, message, context, () => handler(message, context)),
    )
    return this.started(this.created(consumer, { [MADE]: marked }, options, through))
  }

  /** Starts a consumer of batches: each message has its effect, then the handler is called. */
  startBatches(
    consumer: string,
    handler: LocalBatchHandler,
    options: object = {},
    through: Through = this.#root,
  ): Promise<LocalConsumer> {
    const handle: LocalBatchHandler = async (tx, messages, contexts) => {
      for (const [n, message] of messages.entries()) {
        this.#note(consumer, message, contexts[n]!)
        await this.target.effect(tx, this.effectOf(consumer, message.id))
      }
      return handler(tx, messages, contexts)
    }
    const batches = { concurrency: 1, batch: { maxSize: 20, lingerMs: 100 } }
    return this.started(this.created(consumer, { [MADE]: handle }, { ...batches, ...options }, through))
  }

  /** Creates a consumer with handlers that are passed as they are. */
  created(
    consumer: string,
    handlers: Readonly<Record<string, unknown>>,
    options: object = {},
    { database }: Through = this.#root,
  ): LocalConsumer {
    const subject = createLocalConsumer({
      database,
      consumer: this.name(consumer),
      handlers,
      concurrency: 4,
      retry: { attempts: 10, delayMs: () => 10 },
      pollIntervalMs: { min: 5, max: 20 },
      // A renewal that a busy machine delays must not cost a lease.
      leaseMs: 15_000,
      logger: false,
      ...options,
    })
    const events = this.#events.get(consumer) ?? []
    this.#events.set(consumer, events)
    listen(subject, events)
    onTestFinished(() => subject.stop({ timeoutMs: 500 }))
    return subject
  }

  async started(consumer: LocalConsumer): Promise<LocalConsumer> {
    await consumer.start()
    return consumer
  }

  events(consumer = 'billing'): readonly Event[] {
    return this.#events.get(consumer) ?? []
  }

  /** The events of one kind, of one message if given. */
  heardOf<E extends keyof ConsumerEvents>(
    event: E,
    { id, consumer }: { id?: string | undefined; consumer?: string } = {},
  ): readonly ConsumerEvents[E][] {
    return this.events(consumer)
      .filter((one) => one.event === event && (id === undefined || one.id === id))
      .map(({ value }) => value as ConsumerEvents[E])
  }

  /** Resolves when a consumer has emitted an event this many times. */
  async hears(event: keyof ConsumerEvents, count = 1, consumer = 'billing', limitMs?: number): Promise<void> {
    await until(
      async () => this.heardOf(event, { consumer }).length >= count,
      () => `${count} × ${event}; there is ${this.describe(consumer)}`,
      limitMs,
    )
  }

  /** The last events, and their errors. */
  describe(consumer = 'billing'): string {
    const events = this.events(consumer).map(({ event, id, value }) =>
      [event, id, String(Reflect.get(value, 'error') ?? '')].join(' '),
    )
    return `${events.length} events: ${events.slice(-20).join('; ')}`
  }

  /** The calls of a handler for one message. */
  runsOf(id: string | undefined, consumer = 'billing'): readonly LocalRun[] {
    return this.runs.filter((run) => run.id === id && run.consumer === consumer)
  }

  /** Resolves when a consumer has no messages but dead letters. */
  async settled(consumer = 'billing', limitMs?: number): Promise<void> {
    await until(
      async () => (await this.left(consumer)) === 0,
      async () =>
        `nothing is left; there are ${await this.left(consumer)}, ${this.describe(consumer)}, ${JSON.stringify(await this.parked(consumer))}`,
      limitMs,
    )
  }

  #withEffect(consumer: string, handler: LocalHandler): LocalHandler {
    return (tx, message, context) =>
      this.#recorded(consumer, message, context, async () => {
        await this.target.effect(tx, this.effectOf(consumer, message.id))
        return handler(tx, message, context)
      })
  }

  async #recorded(
    consumer: string,
    message: LocalMessage,
    context: ConsumerContext,
    handle: () => unknown,
  ): Promise<unknown> {
    this.#note(consumer, message, context)
    const lane = `${consumer} ${message.key ?? `message ${message.id}`}`
    const other = this.#running.get(lane)
    if (other !== undefined) this.violations.push(`${other} and ${message.id} of ${lane} at once`)
    this.#running.set(lane, message.id)
    try {
      return await handle()
    } finally {
      this.#running.delete(lane)
    }
  }

  #note(consumer: string, message: LocalMessage, context: ConsumerContext): void {
    const { deliveries, localRetries } = context
    const { id, key } = message
    this.runs.push({
      ...{ consumer, id, key, deliveries, localRetries },
      at: performance.now(),
      context,
      message,
    })
  }
}

function withDefaults(message: Published): NewLocalMessage {
  return { type: MADE, payload: {}, ...message }
}
