import {
  PermanentError,
  RetryLaterError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
} from '@txbox/core'
import { oneLine, type OrderedBatch } from '@txbox/core/internal'
import type { ConfirmingChannel, Sender, ConfirmResult } from './confirming-channel.ts'
import { outgoingMessage } from './outgoing-message.ts'
import type { RoutedKeys } from './routed-keys.ts'
import type { StuckKeys } from './stuck-keys.ts'

const ACCEPTED: PublishResult = { status: 'accepted' }

export interface CallSettings {
  readonly exchange: string
  readonly maxMessageBytes: number
  readonly confirmTimeoutMs: number
  readonly stuckKeys: StuckKeys
  readonly routedKeys: RoutedKeys
}

/** How a call ended while the channel was intact. */
type CallEnd = 'settled' | 'timed-out'

/**
 * Sends messages together over a channel that other calls may use as well, and collects the broker's answers. If a message
 * has no result afterwards, it is unknown whether the broker has accepted the message.
 */
export class PublishCall implements Sender {
  /** The places of the messages that were not sent, because each of them must be sent alone. */
  readonly alone: number[] = []
  readonly #channel: ConfirmingChannel
  readonly #batch: OrderedBatch
  readonly #settings: CallSettings
  readonly #answered: PublishOptions['answered']
  readonly #end = Promise.withResolvers<CallEnd>()
  /** The places of the messages that may be sent, in this order. The first `#begun` of them are no longer here. */
  readonly #due: number[]
  #begun = 0
  /** The places of the messages whose routing keys have enough messages in flight, by routing key. */
  readonly #held = new Map<string, number[]>()
  readonly #inFlight = new Set<number>()
  /** Whether the call has ended: from then on no message is sent, even if more answers arrive. */
  #over = false
  #progressAt = performance.now()
  #timer: NodeJS.Timeout | undefined

  constructor(
    channel: ConfirmingChannel,
    batch: OrderedBatch,
    settings: CallSettings,
    answered?: PublishOptions['answered'],
  ) {
    this.#answered = answered
    this.#channel = channel
    this.#batch = batch
    this.#settings = settings
    this.#due = batch.due()
  }

  get channel(): ConfirmingChannel {
    return this.#channel
  }

  /** @throws {BrokerUnavailableError} when the channel fails; the signal's reason when the signal is aborted. */
  async run(signal: AbortSignal): Promise<CallEnd> {
    signal.throwIfAborted()
    const { promise, reject } = this.#end
    const abort = (): void => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    const forget = this.#channel.onFailure(reject)
    this.#watch(this.#settings.confirmTimeoutMs)
    this.resume()
    try {
      return await promise
    } finally {
      this.#over = true
      clearTimeout(this.#timer)
      forget()
      signal.removeEventListener('abort', abort)
    }
  }

  /** Rejects the messages in flight, which were not confirmed in time, without counting an attempt. */
  rejectUnconfirmed(): void {
    for (const place of this.#inFlight) {
      const { id, topic } = this.#batch.messages[place]!
      const message =
        `Message ${oneLine(id)} was not confirmed within ${this.#settings.confirmTimeoutMs} ms, although RabbitMQ answers: ` +
        problemOf(topic)
      this.#note(place, uncounted(message))
    }
    this.#inFlight.clear()
  }

  settled(place: number, verdict: ConfirmResult, at: number): void {
    const message = this.#batch.messages[place]!
    this.#progressAt = at
    this.#inFlight.delete(place)
    this.#settings.stuckKeys.answered(message.topic)
    this.#note(place, this.#resultOf(message, verdict))
    if (this.#isWaiting) this.#channel.wait(this)
    else if (this.#inFlight.size === 0) this.#end.resolve('settled')
  }

  /** Sends as many messages as may be sent now. The other messages are sent after answers of the broker. */
  resume(): void {
    if (this.#over) return
    try {
      this.#sendHeld()
      for (; this.#begun < this.#due.length && !this.#channel.isFull(); this.#begun += 1) {
        this.#begin(this.#due[this.#begun]!)
      }
    } catch (error) {
      this.#end.reject(error)
    }
    if (this.#isWaiting) this.#channel.wait(this)
    else if (this.#inFlight.size === 0) this.#end.resolve('settled')
  }

  /** Whether there are messages that were not sent. */
  get #isWaiting(): boolean {
    return this.#begun < this.#due.length || this.#held.size > 0
  }

  #sendHeld(): void {
    for (const [routingKey, places] of this.#held) {
      while (places.length > 0 && !this.#channel.isFull() && this.#channel.byKey.hasRoomFor(routingKey)) {
        this.#sendOne(places.shift()!)
      }
      if (places.length === 0) this.#held.delete(routingKey)
    }
  }

  #begin(place: number): void {
    const { id, topic } = this.#batch.messages[place]!
    const admission = this.#settings.stuckKeys.admission(topic)
    if (admission === 'alone') return void this.alone.push(place)
    if (admission === 'not-now') {
      const message = `Message ${oneLine(id)} was not sent, because RabbitMQ did not confirm others like it: ${problemOf(topic)}`
      return this.#note(place, uncounted(message))
    }
    if (admission === 'together' && !this.#settings.routedKeys.admits(topic)) {
      const message =
        `Message ${oneLine(id)} was not sent, because others like it, which were routed before, are not routed any more (312 NO_ROUTE): ` +
        `${this.#noRoute(topic)}. Every 30 s, one message of this routing key is tried.`
      return this.#note(place, uncounted(message))
    }
    const held = this.#held.get(topic)
    if (held !== undefined) held.push(place)
    else if (this.#channel.byKey.hasRoomFor(topic)) this.#sendOne(place)
    else this.#held.set(topic, [place])
  }

  #sendOne(place: number): void {
    try {
      const message = outgoingMessage(this.#batch.messages[place]!, this.#settings.maxMessageBytes)
      this.#channel.send(message, this, place)
      this.#inFlight.add(place)
      this.#progressAt = performance.now()
    } catch (error) {
      if (!(error instanceof PermanentError)) throw error
      this.#note(place, { status: 'rejected', retryable: false, error })
    }
  }

  #note(place: number, result: PublishResult): void {
    const next = this.#batch.settle(place, result)
    this.#answered?.(place, result)
    if (next !== undefined) this.#due.push(next)
  }

  /**
   * The time limit counts from the last message that was sent or answered, so that a slow connection does not time out. If
   * messages wait for room, answers for the messages of other calls that take the room count, too.
   */
  #watch(inMs: number): void {
    this.#timer = setTimeout(() => {
      const { answeredAt, byKey } = this.#channel
      const progressAt = Math.max(
        this.#progressAt,
        this.#begun < this.#due.length ? answeredAt : -Infinity,
        ...[...this.#held.keys()].map((routingKey) => byKey.waitingSince(routingKey)),
      )
      const leftMs = progressAt + this.#settings.confirmTimeoutMs - performance.now()
      if (leftMs > 0) this.#watch(leftMs)
      else this.#end.resolve('timed-out')
    }, inMs)
  }

  #resultOf({ id, topic }: OutboxMessage, verdict: ConfirmResult): PublishResult {
    const { exchange, routedKeys } = this.#settings
    if (verdict === 'unroutable') return this.#unroutable(id, topic)
    routedKeys.routed(topic)
    if (verdict === 'confirmed') return ACCEPTED
    // The queue is at fault, and not the message.
    return uncounted(
      `Message ${oneLine(id)} was refused by RabbitMQ (nack): a queue that it was routed to, from exchange '${oneLine(exchange)}' by ` +
        `routing key '${oneLine(topic)}', is full or failed. Look at that queue, and its overflow policy.`,
    )
  }

  #unroutable(id: string, topic: string): PublishResult {
    const message = `Message ${oneLine(id)} was not routed: ${this.#noRoute(topic)} (312 NO_ROUTE).`
    if (this.#settings.routedKeys.returned(topic)) {
      return uncounted(
        `${message} Messages like it were routed before, so it waits until they are routed again.`,
      )
    }
    const advice =
      this.#settings.exchange === ''
        ? 'Declare it, or correct the topic.'
        : 'Bind one, or give the exchange an alternate exchange.'
    return {
      status: 'rejected',
      retryable: true,
      error: new RetryLaterError({ message: `${message} ${advice}` }),
    }
  }

  #noRoute(topic: string): string {
    const { exchange } = this.#settings
    return exchange === ''
      ? `RabbitMQ has no queue '${oneLine(topic)}'`
      : `no queue is bound to exchange '${oneLine(exchange)}' for routing key '${oneLine(topic)}'`
  }
}

function problemOf(topic: string): string {
  return (
    `a queue that it was routed to by routing key '${oneLine(topic)}' has a problem, such as a quorum queue without a ` +
    'majority.'
  )
}

function uncounted(message: string): PublishResult {
  return { status: 'rejected', retryable: true, counted: false, error: new RetryLaterError({ message }) }
}
