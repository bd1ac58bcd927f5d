import { onTestFinished } from 'vitest'
import {
  createConsumer,
  type Consumer,
  type ConsumerContext,
  type ConsumerEvents,
  type InboxMessage,
  type PlainConsumerOptions,
} from '@txbox/consumer'
import type { MemorySource } from './memory-source.ts'

type Event = keyof ConsumerEvents
const EVENTS: readonly Event[] = [
  ...(['handled', 'retried', 'dead-lettered', 'dropped'] as const),
  ...(['unavailable', 'order-broken', 'lost', 'slow', 'error'] as const),
]

/** One call of the handler. */
export interface HandlerRun {
  readonly id: string
  readonly deliveries: number
  readonly localRetries: number
  readonly at: number
  readonly context: ConsumerContext
}

type Handle = (message: InboxMessage, context: ConsumerContext, run: number) => unknown

/** A consumer that records its events and the calls of its handler. */
export class ConsumerUnderTest {
  readonly runs: HandlerRun[] = []
  readonly events: { readonly event: Event; readonly id: string | undefined; readonly value: object }[] = []
  readonly consumer: Consumer
  /** The number of running handlers, and its maximum; also by id. */
  running = new Set<string>()
  mostRunning = 0

  constructor(source: MemorySource, handle: Handle, options: Partial<PlainConsumerOptions> = {}) {
    this.consumer = createConsumer({
      name: 'orders',
      logger: false,
      ...options,
      source,
      handler: async (message, context) => {
        const { deliveries, localRetries } = context
        this.runs.push({ id: message.id, deliveries, localRetries, at: performance.now(), context })
        this.running.add(message.id)
        this.mostRunning = Math.max(this.mostRunning, this.running.size)
        try {
          return await handle(message, context, this.of(message.id).length)
        } finally {
          this.running.delete(message.id)
        }
      },
    })
    listen(this.consumer, this.events)
    onTestFinished(() => void this.consumer.stop({ timeoutMs: 0 }))
  }

  static async started(
    source: MemorySource,
    handle: Handle,
    options: Partial<PlainConsumerOptions> = {},
  ): Promise<ConsumerUnderTest> {
    const subject = new ConsumerUnderTest(source, handle, options)
    await subject.consumer.start()
    return subject
  }

  /** The calls of the handler for this message. */
  of(id: string): readonly HandlerRun[] {
    return this.runs.filter((run) => run.id === id)
  }

  get ids(): string[] {
    return this.runs.map(({ id }) => id)
  }

  heard<E extends Event>(event: E, id?: string): readonly ConsumerEvents[E][] {
    return this.events
      .filter((one) => one.event === event && (id === undefined || one.id === id))
      .map(({ value }) => value as ConsumerEvents[E])
  }
}

/** Records all events of a consumer. */
export function listen(consumer: Consumer, events: ConsumerUnderTest['events']): void {
  for (const event of EVENTS) {
    consumer.on(event, (value) => {
      const id = 'message' in value ? value.message?.id : undefined
      events.push({ event, id, value })
    })
  }
}
