import { BrokerUnavailableError, PermanentError } from '@txbox/core'
import { oneLine, within } from '@txbox/core/internal'
import type { ConfirmChannel } from 'amqplib'
import { headerFrameBytes, headersFlaw } from './header-frame.ts'
import { InFlightByKey } from './in-flight-by-key.ts'
import type { OutgoingMessage } from './outgoing-message.ts'
import { brokersReasonOf, replyCodeOf } from '../connection/reason-of.ts'
import { ReusedHeaders } from './reused-headers.ts'
import { Unconfirmed } from './unconfirmed.ts'

export type ConfirmResult = 'confirmed' | 'refused' | 'unroutable'

export interface Sender {
  /**
   * Called once for each message, unless the channel fails.
   *
   * @param place the place of the message in its call.
   * @param at the time of the answer, on the monotonic clock.
   */
  settled(place: number, verdict: ConfirmResult, at: number): void
  /** Called once after `wait`, when there may be room again, unless the channel fails. */
  resume(): void
}

interface InFlight {
  readonly id: string
  readonly routingKey: string
  readonly sender: Sender
  readonly place: number
  returned: boolean
}

/** More messages do not make the broker faster, but delay its answers. */
const MOST_IN_FLIGHT = 2000

/** Larger than each header frame that the client writes: headers have at most 64 KiB. */
const LARGEST_HEADER_FRAME = 70_000

/**
 * A channel in confirm mode: sends messages and passes the broker's answers on to their senders.
 *
 * The broker returns a message that no queue takes before it confirms the message, and names the message by its routing
 * key and its properties only. If the same message is in flight twice, the channel cannot know which of the two came
 * back, and both count as unroutable: at worst, a message that was published is sent again. A mark in the message would
 * tell them apart, but then a resend would differ from the first copy.
 */
export class ConfirmingChannel {
  readonly #channel: ConfirmChannel
  readonly #exchange: string
  /** The broker's address, for error messages. */
  readonly #broker: string
  /** The maximum size of a frame, as the client and the broker have agreed. */
  readonly #frameMax: number
  readonly #inFlight = new Unconfirmed<InFlight>()
  readonly #byKey = new InFlightByKey()
  readonly #headers = new ReusedHeaders()
  readonly #failureListeners = new Set<(error: BrokerUnavailableError) => void>()
  /** Makes messages that are sent from now on go out together. */
  readonly #gather: () => void
  #full = false
  #failure: BrokerUnavailableError | undefined
  #refusal: { readonly code: number; readonly reason: string } | undefined
  readonly #waiting = new Set<Sender>()
  #answeredAt = performance.now()

  constructor(
    channel: ConfirmChannel,
    how: {
      readonly exchange: string
      readonly broker: string
      readonly frameMax: number
      readonly gather: () => void
    },
  ) {
    this.#channel = channel
    this.#exchange = how.exchange
    this.#broker = how.broker
    this.#frameMax = how.frameMax
    this.#gather = how.gather
    channel.on('ack', ({ deliveryTag, multiple }) => this.#settle(deliveryTag, multiple, 'confirmed'))
    channel.on('nack', ({ deliveryTag, multiple }) => this.#settle(deliveryTag, multiple, 'refused'))
    channel.on('return', ({ fields, properties }) => this.#returned(properties.messageId, fields.routingKey))
    channel.on('drain', () => {
      this.#full = false
      this.#changed()
    })
    channel.on('error', (error) => {
      const code = replyCodeOf(error)
      if (code !== undefined) this.#refusal = { code, reason: brokersReasonOf(error) }
    })
    // If the connection has closed, its error says more, and is known by the end of this turn of the event loop.
    channel.on('close', () => queueMicrotask(() => this.fail(this.#closedByBroker())))
  }

  get failure(): BrokerUnavailableError | undefined {
    return this.#failure
  }

  /** The broker's reason for closing this channel and leaving the connection open. */
  get refusal(): { readonly code: number; readonly reason: string } | undefined {
    return this.#refusal
  }

  /** On the monotonic clock. */
  get answeredAt(): number {
    return this.#answeredAt
  }

  get byKey(): Pick<InFlightByKey, 'hasRoomFor' | 'waitingSince' | 'unansweredSince'> {
    return this.#byKey
  }

  /**
   * Whether no message may be sent now, no matter which.
   *
   * @throws {BrokerUnavailableError} when the channel has failed.
   */
  isFull(): boolean {
    if (this.#failure !== undefined) throw this.#failure
    return this.#full || this.#inFlight.size >= MOST_IN_FLIGHT
  }

  /** Calls `resume` of the sender when there may be room again. */
  wait(sender: Sender): void {
    this.#waiting.add(sender)
  }

  /**
   * Sends a message for which there is room.
   *
   * @throws {PermanentError} when the message cannot be written as AMQP; nothing was sent.
   * @throws {BrokerUnavailableError} when the channel is closed.
   */
  send(message: OutgoingMessage, sender: Sender, place: number): void {
    const { id, routingKey, content, properties } = message
    this.#checkHeaderFrame(message)
    this.#gather()
    try {
      const options = { ...(properties as object), headers: this.#headers.of(properties.headers) }
      this.#full = !this.#channel.publish(this.#exchange, routingKey, content, options)
    } catch (error) {
      if (error instanceof TypeError || error instanceof RangeError) {
        throw new PermanentError(
          `Message ${oneLine(id)} cannot be encoded in AMQP: ${headersFlaw(message) ?? error.message}.`,
          { cause: error },
        )
      }
      throw this.#failure ?? this.#closedByBroker()
    }
    this.#inFlight.add({ id, routingKey, sender, place, returned: false })
    this.#byKey.sent(routingKey)
  }

  /** For a larger frame, the broker would close the connection, and with it end all messages in flight. */
  #checkHeaderFrame(message: OutgoingMessage): void {
    if (this.#frameMax >= LARGEST_HEADER_FRAME) return
    const bytes = headerFrameBytes(message)
    if (bytes <= this.#frameMax) return
    throw new PermanentError(
      `Message ${oneLine(message.id)} has headers and properties of ${bytes} bytes; the connection to RabbitMQ allows ${this.#frameMax}. ` +
        "Publish it with smaller headers, or raise 'frameMax' in the URL and RabbitMQ's frame_max.",
    )
  }

  /** Whether the broker processes what is sent on this channel: a queue can block the channel. */
  async answers(limitMs: number): Promise<boolean> {
    // A request that needs no permission, and changes nothing for a channel without consumers.
    const request = async (): Promise<unknown> => this.#channel.prefetch(0)
    const answered = request().then(
      () => true,
      () => false,
    )
    return await within(answered, limitMs, () => false, { ref: false })
  }

  /** Ends the channel although a message is in flight. */
  abandon(error: BrokerUnavailableError): void {
    this.fail(error)
    void this.close()
  }

  /** Closes the channel. No message may be in flight. */
  async close(): Promise<void> {
    await this.#channel.close().catch(() => undefined)
  }

  /** @returns a function that ends the subscription. */
  onFailure(listener: (error: BrokerUnavailableError) => void): () => void {
    if (this.#failure !== undefined) listener(this.#failure)
    this.#failureListeners.add(listener)
    return () => void this.#failureListeners.delete(listener)
  }

  /** Ends the channel. Nothing is known of the messages in flight. */
  fail(error: BrokerUnavailableError): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    this.#inFlight.clear()
    for (const listener of this.#failureListeners) listener(error)
  }

  #returned(id: unknown, routingKey: string): void {
    const returned = this.#inFlight.matching((one) => one.id === id && one.routingKey === routingKey)
    for (const one of returned) one.returned = true
    if (returned.length > 0) return
    // One of the messages in flight was lost, and it is not known which one: none may count as published.
    this.fail(
      new BrokerUnavailableError(
        `RabbitMQ at ${this.#broker} returned a message that is not in flight, with the id ${JSON.stringify(id)}.`,
      ),
    )
  }

  #settle(tag: number, multiple: boolean, verdict: 'confirmed' | 'refused'): void {
    const now = performance.now()
    this.#answeredAt = now
    for (const { routingKey, sender, place, returned } of this.#inFlight.take(tag, multiple)) {
      this.#byKey.answered(routingKey, now)
      sender.settled(place, returned ? 'unroutable' : verdict, now)
    }
    this.#changed()
  }

  #changed(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const sender of waiting) sender.resume()
  }

  #closedByBroker(): BrokerUnavailableError {
    const { code, reason } = this.#refusal ?? { code: 0, reason: 'the channel was closed' }
    const advice =
      code === 404
        ? ` Create the exchange '${this.#exchange}', or let 'assertExchange' do it.`
        : code === 403
          ? ` Give the user the permission to write to exchange '${this.#exchange}'.`
          : ''
    return new BrokerUnavailableError(
      `RabbitMQ at ${this.#broker} does not accept messages for exchange '${this.#exchange}': ${reason}.${advice}`,
    )
  }
}
