import { isTxboxError } from '@txbox/core'
import { explanationOf } from '@txbox/core/internal'
import type { ConsumeMessage, MessageProperties, Options } from 'amqplib'
import type { SourcePublishing } from './source-publishing.ts'

/** The maximum length of the error in a dead letter, and in one whose headers have no more room. */
const ERROR_CHARACTERS = 1000
const SHORT_ERROR_CHARACTERS = 200

/** The size of the headers that stay in a dead letter whose headers have no room for the reason: of each, and together. */
const SMALL_HEADER_BYTES = 1000
const SMALL_HEADERS_BYTES = 16_000

/** How many names of headers a reduced dead letter lists, and how long a name may be there. */
const LISTED_NAMES = 20
const NAME_CHARACTERS = 60

type Headers = Readonly<Record<string, unknown>>

/** Why a message is a dead letter. */
export interface Death {
  readonly error: unknown
  readonly deliveries: number
  /** What stands in for the id of a message that has none. */
  readonly id?: string | undefined
}

/**
 * The exchange that takes the dead letters of a queue. The source publishes each dead letter itself: the broker would not keep the
 * reason, and a classic queue drops a rejected message that the exchange routes to no queue.
 */
export class DeadLetterExchange {
  readonly #publishing: SourcePublishing
  readonly #exchange: string
  /** The name of the source, and of the user who may be named as the sender of a message. */
  readonly #names: { readonly source: string; readonly user: string }

  constructor(publishing: SourcePublishing, exchange: string, names: { source: string; user: string }) {
    this.#publishing = publishing
    this.#exchange = exchange
    this.#names = names
  }

  /**
   * Publishes a message with its original routing key, content, properties and headers, and with the reason in further headers.
   * If the broker refuses that for good, large headers of the message are left out and named, and then all of its headers.
   *
   * @throws as `SourcePublishing.publish`.
   */
  async take(received: ConsumeMessage, death: Death): Promise<void> {
    const message = withId(received, death.id)
    const headers = headersOf(message.properties)
    try {
      await this.#publish(message, { ...headers, ...this.#reason(death, ERROR_CHARACTERS) })
    } catch (error) {
      if (!isRefusedForGood(error)) throw error
      await this.#publishReduced(message, headers, this.#reason(death, SHORT_ERROR_CHARACTERS))
    }
  }

  async #publishReduced(message: ConsumeMessage, headers: Headers, reason: Headers): Promise<void> {
    try {
      await this.#publish(message, { ...smallHeaders(headers), ...reason })
    } catch (error) {
      if (!isRefusedForGood(error)) throw error
      await this.#publish(message, { 'txbox-left-out': listed(Object.keys(headers)), ...reason })
    }
  }

  #publish({ content, fields, properties }: ConsumeMessage, headers: Headers): Promise<void> {
    const options = { ...this.#propertiesOf(properties), headers }
    return this.#publishing.publish(this.#exchange, fields.routingKey, content, options)
  }

  /** Leaves out what would let the dead letter expire, and another user as its sender, which the broker refuses. */
  #propertiesOf(properties: MessageProperties): Options.Publish {
    const kept: Options.Publish = { ...properties }
    delete kept.expiration
    if (kept.userId !== this.#names.user) delete kept.userId
    return kept
  }

  #reason({ error, deliveries }: Death, errorCharacters: number): Headers {
    return {
      'txbox-error': explanationOf(error, errorCharacters),
      'txbox-deliveries': String(deliveries),
      'txbox-source': this.#names.source,
    }
  }
}

function withId(message: ConsumeMessage, id: string | undefined): ConsumeMessage {
  const { properties } = message
  if (id === undefined || id === '' || properties.messageId) return message
  // The broker closes the connection for a longer property.
  return Buffer.byteLength(id) > 255 ? message : { ...message, properties: { ...properties, messageId: id } }
}

/** The broker would route a copy of the dead letter to each routing key in `CC` and `BCC`. */
function headersOf({ headers }: MessageProperties): Headers {
  const { CC: cc, BCC: _, ...others } = headers ?? {}
  return cc === undefined ? others : { ...others, 'txbox-cc': cc }
}

/** Returns the headers that are small, as many as have room together, and the names of the others. */
function smallHeaders(headers: Headers): Headers {
  const small: [string, unknown][] = []
  const left: string[] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    const size = Buffer.byteLength(name) + Buffer.byteLength(JSON.stringify(value) ?? '')
    if (size > SMALL_HEADER_BYTES || bytes + size > SMALL_HEADERS_BYTES) left.push(name)
    else {
      small.push([name, value])
      bytes += size
    }
  }
  return { ...Object.fromEntries(small), 'txbox-left-out': listed(left) }
}

function listed(names: readonly string[]): string {
  const first = names.slice(0, LISTED_NAMES).map((name) => name.slice(0, NAME_CHARACTERS))
  const more = names.length > first.length ? ` and ${names.length - first.length} more` : ''
  return `headers ${first.join(', ')}${more}`
}

function isRefusedForGood(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_PERMANENT'
}
