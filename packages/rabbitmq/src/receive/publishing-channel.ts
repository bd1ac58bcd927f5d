import { BrokerUnavailableError, PermanentError, RetryLaterError } from '@txbox/core'
import { oneLine, within } from '@txbox/core/internal'
import type { ConfirmChannel, Message, Options } from 'amqplib'
import { brokersReasonOf, replyCodeOf } from '../connection/reason-of.ts'
import { frameBytes } from './frame-bytes.ts'

/** A message that the source publishes itself. */
export interface Publication {
  readonly exchange: string
  readonly routingKey: string
  readonly content: Buffer
  readonly options: Options.Publish
}

/** The broker has closed the channel because of one of several messages, and it is unknown which. */
export const BLAMED_WITH_OTHERS = Symbol('blamed-with-others')

const UNROUTABLE = 'RabbitMQ routed it to no queue (312 NO_ROUTE)'

/** @returns whether the message was refused because there is no queue for it. */
export function isUnroutable(error: unknown): boolean {
  return error instanceof RetryLaterError && error.message.includes(UNROUTABLE)
}

interface InFlight {
  readonly publication: Publication
  isReturned: boolean
  /** Settles once the message has a result. */
  readonly answered: PromiseWithResolvers<typeof BLAMED_WITH_OTHERS | undefined>
}

interface PublishingHow {
  /** The broker's address, for error messages. */
  readonly broker: string
  readonly frameMax: number
  readonly confirmTimeoutMs: number
  /** Makes messages that are sent from now on go out together. */
  readonly gather: () => void
}

/** A confirm channel. It never reopens: after a failure or a time limit, another channel is opened. */
export class PublishingChannel {
  readonly #channel: ConfirmChannel
  readonly #how: PublishingHow
  readonly #inFlight = new Set<InFlight>()
  #refusal: { readonly code: number; readonly reason: string } | undefined
  #isUsable = true

  constructor(channel: ConfirmChannel, how: PublishingHow) {
    this.#channel = channel
    this.#how = how
    channel.on('return', (returned: Message) => this.#returned(returned))
    channel.on('error', (error: unknown) => {
      const code = replyCodeOf(error)
      if (code !== undefined) this.#refusal = { code, reason: brokersReasonOf(error) }
    })
    // If the whole connection has ended, the client emits this event, too.
    channel.on('close', () => this.#closed())
  }

  /** Whether further messages may be sent. */
  get isUsable(): boolean {
    return this.#isUsable
  }

  /**
   * Sends one message, and waits until the broker has confirmed it.
   *
   * @returns `BLAMED_WITH_OTHERS` when the message must be sent again, on a channel of its own.
   * @throws {RetryLaterError | PermanentError | BrokerUnavailableError} as `SourcePublishing.publish`.
   */
  async send(publication: Publication): Promise<typeof BLAMED_WITH_OTHERS | undefined> {
    // The broker names a returned message by its address and content only, so equal messages follow each other.
    for (let equal; (equal = this.#equalTo(publication)) !== undefined;) {
      await equal.answered.promise.catch(() => undefined)
    }
    const one: InFlight = { publication, isReturned: false, answered: Promise.withResolvers() }
    this.#publish(one)
    this.#inFlight.add(one)
    try {
      return await within(one.answered.promise, this.#how.confirmTimeoutMs, (ms) => {
        // A queue that does not answer may block the channel, and with it all messages that follow.
        this.#isUsable = false
        one.answered.resolve(undefined)
        throw notNow(publication, `RabbitMQ did not confirm it within ${ms} ms`)
      })
    } finally {
      this.#inFlight.delete(one)
      if (!this.#isUsable && this.#inFlight.size === 0) void this.close()
    }
  }

  async close(): Promise<void> {
    this.#isUsable = false
    const close = async (): Promise<void> => this.#channel.close()
    await close().catch(() => undefined)
  }

  #publish(one: InFlight): void {
    const { exchange, routingKey, content, options } = one.publication
    const { frameMax, broker } = this.#how
    const headerBytes = frameBytes(options)
    if (headerBytes > frameMax) {
      throw never(
        one.publication,
        `its headers have ${headerBytes} bytes, and the connection allows ${frameMax}`,
      )
    }
    this.#how.gather()
    try {
      const how = { ...options, mandatory: true, persistent: true }
      this.#channel.publish(exchange, routingKey, content, how, (error: unknown) =>
        this.#answered(one, error),
      )
    } catch (error) {
      if (error instanceof TypeError || error instanceof RangeError) {
        throw never(one.publication, `it cannot be encoded in AMQP: ${error.message}`, error)
      }
      this.#isUsable = false
      throw new BrokerUnavailableError(`The connection to RabbitMQ at ${broker} has ended.`, { cause: error })
    }
  }

  /** @param error is set when the broker has refused the message, or the channel has ended. */
  #answered({ publication, isReturned, answered }: InFlight, error: unknown): void {
    if (isReturned) answered.reject(notNow(publication, UNROUTABLE))
    else if (error === null || error === undefined) answered.resolve(undefined)
    else {
      // If the channel has ended, `#closed` runs first and says why.
      const nacked = notNow(publication, 'a queue that RabbitMQ routed it to is full or failed (nack)')
      queueMicrotask(() => answered.reject(nacked))
    }
  }

  #returned({ fields, properties, content }: Message): void {
    for (const one of this.#inFlight) {
      const { exchange, routingKey, options } = one.publication
      if (
        fields.exchange === exchange &&
        fields.routingKey === routingKey &&
        properties.messageId === options.messageId &&
        content.equals(one.publication.content)
      ) {
        one.isReturned = true
      }
    }
  }

  #closed(): void {
    this.#isUsable = false
    const refusal = this.#refusal
    const isShared = this.#inFlight.size > 1
    for (const { publication, answered } of this.#inFlight) {
      if (refusal === undefined) {
        answered.reject(
          new BrokerUnavailableError(
            `The connection to RabbitMQ at ${this.#how.broker} broke while message ${nameOf(publication)} was published. ` +
              'It is unknown whether the broker has it.',
          ),
        )
      } else if (isShared) answered.resolve(BLAMED_WITH_OTHERS)
      // PRECONDITION_FAILED: the message is too large for the broker, or has a property that the broker refuses.
      else if (refusal.code === 406)
        answered.reject(never(publication, `RabbitMQ refused it: ${refusal.reason}`))
      else answered.reject(notNow(publication, `RabbitMQ refused it: ${refusal.reason}`))
    }
  }

  #equalTo({ exchange, routingKey, content, options }: Publication): InFlight | undefined {
    for (const one of this.#inFlight) {
      const { publication: other } = one
      if (
        other.options.messageId === options.messageId &&
        other.exchange === exchange &&
        other.routingKey === routingKey &&
        other.content.equals(content)
      ) {
        return one
      }
    }
    return undefined
  }
}

/** The exchange or a queue may accept the message later. */
function notNow(publication: Publication, reason: string): RetryLaterError {
  const message = `Message ${nameOf(publication)} was not published to ${addressOf(publication)}: ${reason}.`
  return new RetryLaterError({ message })
}

/** Each attempt to publish this message would fail. */
function never(publication: Publication, reason: string, cause?: unknown): PermanentError {
  const message = `Message ${nameOf(publication)} cannot be published to ${addressOf(publication)}: ${reason}.`
  return new PermanentError(message, { cause })
}

function nameOf({ options: { messageId } }: Publication): string {
  return messageId === undefined ? 'without an id' : oneLine(messageId)
}

function addressOf({ exchange, routingKey }: Publication): string {
  return exchange === ''
    ? `queue '${oneLine(routingKey)}'`
    : `exchange '${oneLine(exchange)}' with routing key '${oneLine(routingKey)}'`
}
