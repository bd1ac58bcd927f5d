import { BrokerUnavailableError, PermanentError, oneLine } from '@txbox/core'
import type { ConfirmChannel } from 'amqplib'
import type { OutgoingMessage } from './outgoing-message.ts'
import { brokersReasonOf, replyCodeOf } from './reason-of.ts'
import { ReusedHeaders } from './reused-headers.ts'
import { Unconfirmed } from './unconfirmed.ts'

/** What the broker says of one message. */
export type Verdict = 'confirmed' | 'refused' | 'unroutable'

/** Who has sent a message, and wants to know what becomes of it. */
export interface Sender {
  /** Called once for each message, by its place there, unless the channel fails. `at`: when, on the monotonic clock. */
  settled(place: number, verdict: Verdict, at: number): void
  /** Called once after `wait`, when `maySend` may answer otherwise, unless the channel fails. */
  resume(): void
}

interface InFlight {
  readonly id: string
  readonly routingKey: string
  readonly sender: Sender
  readonly place: number
  returned: boolean
}

/**
 * The most messages in flight: a confirm of a later one makes room for the next. More does not make the broker faster,
 * but its answers later.
 */
const WINDOW = 2000

/**
 * Answers come one by one, and a message written for each of them would be a packet of its own, here and at the broker.
 * So with more than this in flight, what may follow is gathered for a moment.
 */
const FEW = 16
const GATHERING_MS = 2

/**
 * A channel in confirm mode: sends messages and tells what the broker says of each.
 *
 * The broker releases a message that no queue takes before it confirms it, and names it by its routing key and its
 * properties only. Where the same message is in flight twice, it is not known which one came back, and each counts as
 * unroutable: at worst, one that has gone is sent again. A mark in the message would tell, but a resend would differ.
 */
export class ConfirmingChannel {
  readonly #channel: ConfirmChannel
  readonly #exchange: string
  /** Where the broker is, for messages. */
  readonly #broker: string
  readonly #inFlight = new Unconfirmed<InFlight>()
  readonly #headers = new ReusedHeaders()
  readonly #failureListeners = new Set<(error: BrokerUnavailableError) => void>()
  /** Has what is sent from now on go out together. */
  readonly #gather: () => void
  #full = false
  #failure: BrokerUnavailableError | undefined
  #refusal: { readonly code: number; readonly reason: string } | undefined
  readonly #waiting = new Set<Sender>()
  #gathering: NodeJS.Timeout | undefined
  #confirms = 0

  constructor(channel: ConfirmChannel, exchange: string, broker: string, gather: () => void) {
    this.#channel = channel
    this.#exchange = exchange
    this.#broker = broker
    this.#gather = gather
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
    // When it was the connection that closed, that is known by the end of this turn, and says more.
    channel.on('close', () => queueMicrotask(() => this.fail(this.#closedByBroker())))
  }

  /** Why nothing goes through it any more. */
  get failure(): BrokerUnavailableError | undefined {
    return this.#failure
  }

  /** What the broker said when it closed this channel, and left the connection open. */
  get refusal(): { readonly code: number; readonly reason: string } | undefined {
    return this.#refusal
  }

  /** How many messages the broker has answered for: when it grows, the broker is at work. */
  get confirms(): number {
    return this.#confirms
  }

  /** @throws {BrokerUnavailableError} when it has failed. */
  maySend(): boolean {
    if (this.#failure !== undefined) throw this.#failure
    return !this.#full && this.#inFlight.size < WINDOW
  }

  /** For who may not send now, or has just got an answer. */
  wait(sender: Sender): void {
    this.#waiting.add(sender)
  }

  /**
   * Sends a message that `maySend`.
   *
   * @throws {PermanentError} when it cannot be written as AMQP; nothing was sent.
   * @throws {BrokerUnavailableError} when the channel is closed.
   */
  send(message: OutgoingMessage, sender: Sender, place: number): void {
    const { id, routingKey, content, properties, headers, key } = message
    this.#gather()
    try {
      this.#full = !this.#channel.publish(this.#exchange, routingKey, content, {
        ...(properties as object),
        headers: this.#headers.of(headers, key),
      })
    } catch (error) {
      if (error instanceof TypeError || error instanceof RangeError) {
        throw new PermanentError(
          `Message ${oneLine(id)} cannot be written as AMQP: ${error.message}. Its headers may take 64 KiB, each name 255 bytes.`,
          { cause: error },
        )
      }
      throw this.#failure ?? this.#closedByBroker()
    }
    this.#inFlight.add({ id, routingKey, sender, place, returned: false })
  }

  /** Gives it back. Nothing may be in flight. */
  async close(): Promise<void> {
    await this.#channel.close().catch(() => undefined)
  }

  /** @returns a function that ends the subscription. */
  onFailure(listener: (error: BrokerUnavailableError) => void): () => void {
    if (this.#failure !== undefined) listener(this.#failure)
    this.#failureListeners.add(listener)
    return () => void this.#failureListeners.delete(listener)
  }

  /** From here on nothing is known of what is in flight. */
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
    // One of those in flight was lost, and it is not known which: none may be taken for published.
    this.fail(
      new BrokerUnavailableError(
        `RabbitMQ at ${this.#broker} gave back a message that is not in flight, with the id ${JSON.stringify(id)}.`,
      ),
    )
  }

  #settle(tag: number, multiple: boolean, verdict: 'confirmed' | 'refused'): void {
    const now = performance.now()
    for (const { sender, place, returned } of this.#inFlight.take(tag, multiple)) {
      this.#confirms += 1
      sender.settled(place, returned ? 'unroutable' : verdict, now)
    }
    this.#changed()
  }

  #changed(): void {
    if (this.#waiting.size === 0) return
    if (this.#inFlight.size < FEW) this.#resumeAll()
    else this.#gathering ??= setTimeout(() => this.#resumeAll(), GATHERING_MS)
  }

  #resumeAll(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
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
      `RabbitMQ at ${this.#broker} does not take messages for exchange '${this.#exchange}': ${reason}.${advice}`,
    )
  }
}
