import {
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { binaryEvent } from './binary-event.ts'
import { cloudEventsOptions, type CloudEventsOptions, type EventSettings } from './cloud-events-options.ts'
import { attributesOf } from './event-attributes.ts'
import { structuredEvent } from './structured-event.ts'

const SKIPPED: PublishResult = { status: 'skipped' }

/** The publishers that this package has made, which must not be wrapped again: an event would contain another one. */
const WRAPPERS = new WeakSet<Publisher>()

/**
 * Wraps a publisher so that its messages are CloudEvents 1.0. All other members of the publisher are passed on as they are.
 *
 * - `id`, `time` = when the message was stored, `type` = the message's type, or else its topic, `datacontenttype` = its content type,
 *   `partitionkey` = its key, `correlationid` = its correlation id; `traceparent` and `tracestate`, if the headers have valid ones.
 * - Binary mode: attributes are headers with the prefix of the broker's binding. Structured mode: the payload is one JSON object; JSON is
 *   in `data` byte for byte, a text as a JSON string, and anything else in `data_base64`.
 * - A message that cannot be an event is rejected permanently: an attribute with a control character, an empty id, a header with the name
 *   of an attribute.
 *
 * @throws {InvalidOptionError} for a wrong option, and for a publisher that is wrapped already.
 */
export function cloudEvents(options: CloudEventsOptions): Publisher {
  const settings = cloudEventsOptions(options)
  const { publisher } = options
  if (WRAPPERS.has(publisher)) {
    throw new InvalidOptionError(
      'cloudEvents: this publisher sends CloudEvents already. Pass the publisher in it.',
    )
  }
  const events = new EventPublishing(publisher, settings)
  const publish = events.publish.bind(events)
  // All members of the publisher are passed on, also those that later versions of `Publisher` have.
  const wrapper = new Proxy({} as Publisher, {
    get(_, name): unknown {
      if (name === 'publish') return publish
      const member: unknown = Reflect.get(publisher, name)
      return typeof member === 'function' ? (member.bind(publisher) as unknown) : member
    },
    has: (_, name) => Reflect.has(publisher, name),
  })
  WRAPPERS.add(wrapper)
  return wrapper
}

class EventPublishing {
  readonly #publisher: Publisher
  readonly #settings: EventSettings

  constructor(publisher: Publisher, settings: EventSettings) {
    this.#publisher = publisher
    this.#settings = settings
  }

  async publish(
    messages: readonly OutboxMessage[],
    { answered, ...options }: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    options.signal.throwIfAborted()
    const results: (PublishResult | undefined)[] = Array.from({ length: messages.length })
    const events: OutboxMessage[] = []
    /** For each event, the place of its message. */
    const places: number[] = []
    const stopped = new Set<string>()
    for (const [place, message] of messages.entries()) {
      const { key } = message
      // A message is not sent if an earlier message of its key was refused.
      const event = key !== undefined && stopped.has(key) ? SKIPPED : this.#eventOrRejection(message)
      if (!('status' in event)) {
        events.push(event)
        places.push(place)
        continue
      }
      results[place] = event
      if (key !== undefined) stopped.add(key)
    }
    if (events.length > 0) {
      const forward = (index: number, result: PublishResult): void => answered?.(places[index]!, result)
      const published = await this.#publisher.publish(events, {
        ...options,
        ...(answered !== undefined && { answered: forward }),
      })
      for (const [index, place] of places.entries()) results[place] = published[index]
    }
    return settled(messages, results, new Set(places))
  }

  #eventOrRejection(message: OutboxMessage): OutboxMessage | PublishResult {
    const { binding, extensions } = this.#settings
    try {
      const attributes = attributesOf(message, this.#settings)
      return binding === undefined
        ? structuredEvent(message, attributes, extensions)
        : binaryEvent(message, attributes, binding, extensions)
    } catch (error) {
      if (error instanceof PermanentError) return { status: 'rejected', retryable: false, error }
      if (error instanceof RetryLaterError) return { status: 'rejected', retryable: true, error }
      throw error
    }
  }
}

/** A message that could not be an event is skipped instead if the publisher has refused an earlier message of its key. */
function settled(
  messages: readonly OutboxMessage[],
  results: readonly (PublishResult | undefined)[],
  published: ReadonlySet<number>,
): readonly PublishResult[] {
  const stopped = new Set<string>()
  return messages.map(({ key }, place) => {
    const result = results[place] as PublishResult
    if (key === undefined) return result
    if (stopped.has(key) && !published.has(place)) return SKIPPED
    if (result?.status !== 'accepted') stopped.add(key)
    return result
  })
}
