import { cloudEvents, type CloudEventsBinding, type CloudEventsOptions } from '@txbox/cloudevents'
import type { OutboxMessage, PublishOptions, PublishResult, Publisher } from '@txbox/core'
import { outboxMessage, publish, summary } from './publishing.ts'

export const KAFKA: CloudEventsBinding = {
  prefix: 'ce_',
  contentTypeAsAttribute: false,
  percentEncode: false,
}
export const HEADERS: CloudEventsBinding = {
  prefix: 'ce-',
  contentTypeAsAttribute: false,
  percentEncode: true,
}
export const NATS: CloudEventsBinding = { ...HEADERS, contentTypeAsAttribute: true }
/** Keeps what it is given, and refuses messages by their type. */
export class EventRecorder implements Publisher {
  readonly ordering = 'per-key'
  readonly cloudEvents: CloudEventsBinding | undefined
  readonly sent: OutboxMessage[] = []
  #closed = 0

  constructor(binding?: CloudEventsBinding) {
    this.cloudEvents = binding
  }

  async publish(messages: readonly OutboxMessage[], { answered }: PublishOptions): Promise<PublishResult[]> {
    return messages.map((message, index) => {
      this.sent.push(message)
      const result: PublishResult =
        message.type === 'refused'
          ? { status: 'rejected', retryable: true, error: new Error('refused') }
          : { status: 'accepted' }
      answered?.(index, result)
      return result
    })
  }

  async close(): Promise<void> {
    this.#closed += 1
  }

  get system(): string {
    return `recorder ${this.#closed}`
  }
}

/** Publishes one message as an event. @returns what the publisher inside has received */
export async function eventOf(
  message: Partial<OutboxMessage>,
  binding?: CloudEventsBinding,
  options: Partial<CloudEventsOptions> = {},
): Promise<OutboxMessage> {
  const publisher = new EventRecorder(binding)
  const events = cloudEvents({ source: '/orders', publisher, ...options })
  const results = await publish(events, [outboxMessage({ topic: 'orders', ...message })])
  if (summary(results).join() !== 'accepted') throw new Error(`The message was ${summary(results).join()}.`)
  return publisher.sent[0]!
}
