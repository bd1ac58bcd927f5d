import {
  PermanentError,
  RetryLaterError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
} from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { ConfirmingChannel, Sender, Verdict } from './confirming-channel.ts'
import type { OrderedBatch } from './ordered-batch.ts'
import { outgoingMessage } from './outgoing-message.ts'

const ACCEPTED: PublishResult = { status: 'accepted' }

export interface CallSettings {
  readonly exchange: string
  readonly maxMessageBytes: number
  readonly confirmTimeoutMs: number
}

/** How a call ended while the channel was intact. */
export type CallEnd = 'settled' | 'timed-out'

/**
 * Sends messages together over a channel that other calls may use as well, and collects the broker's answers. If a message
 * has no result afterwards, it is unknown whether the broker has accepted the message.
 */
export class PublishCall implements Sender {
  readonly #channel: ConfirmingChannel
  readonly #batch: OrderedBatch
  readonly #settings: CallSettings
  readonly #answered: PublishOptions['answered']
  readonly #confirmsBefore: number
  readonly #end = Promise.withResolvers<CallEnd>()
  /** The places of the messages that may be sent, in this order. The first `#sent` of them have been sent. */
  readonly #due: number[]
  #sent = 0
  #inFlight = 0
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
    this.#confirmsBefore = channel.confirms
    this.#due = batch.due()
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

  /**
   * Whether the broker has answered for other messages meanwhile: then the broker works, and a time-out concerns only the
   * messages in flight and the messages that wait behind them.
   */
  get othersWereConfirmed(): boolean {
    return this.#sent === this.#due.length && this.#channel.confirms > this.#confirmsBefore
  }

  settled(place: number, verdict: Verdict, at: number): void {
    this.#progressAt = at
    this.#inFlight -= 1
    this.#note(
      place,
      verdict === 'confirmed' ? ACCEPTED : this.#rejection(this.#batch.messages[place]!, verdict),
    )
    if (this.#sent < this.#due.length) this.#channel.wait(this)
    else if (this.#inFlight === 0) this.#end.resolve('settled')
  }

  /** Sends as many messages as may be sent now. The other messages are sent after answers of the broker. */
  resume(): void {
    if (this.#over) return
    const sentBefore = this.#sent
    try {
      for (; this.#sent < this.#due.length; this.#sent += 1) {
        const place = this.#due[this.#sent]!
        if (!this.#channel.maySend()) return this.#channel.wait(this)
        this.#sendOne(place)
      }
    } catch (error) {
      this.#end.reject(error)
    } finally {
      if (this.#sent > sentBefore) this.#progressAt = performance.now()
    }
    if (this.#inFlight === 0) this.#end.resolve('settled')
  }

  #sendOne(place: number): void {
    try {
      const message = outgoingMessage(this.#batch.messages[place]!, this.#settings.maxMessageBytes)
      this.#channel.send(message, this, place)
      this.#inFlight += 1
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

  /** The time limit counts from the last message that was sent or answered, so that a slow connection does not time out. */
  #watch(inMs: number): void {
    this.#timer = setTimeout(() => {
      const leftMs = this.#progressAt + this.#settings.confirmTimeoutMs - performance.now()
      if (leftMs > 0) this.#watch(leftMs)
      else this.#end.resolve('timed-out')
    }, inMs)
  }

  #rejection({ id, topic }: OutboxMessage, verdict: 'refused' | 'unroutable'): PublishResult {
    const { exchange } = this.#settings
    const message =
      verdict === 'refused'
        ? `Message ${oneLine(id)} was refused by RabbitMQ (nack): a queue that it was routed to, from exchange '${oneLine(exchange)}' by ` +
          `routing key '${oneLine(topic)}', is full or failed. Look at that queue, and its overflow policy.`
        : exchange === ''
          ? `Message ${oneLine(id)} was not routed: RabbitMQ has no queue '${oneLine(topic)}' (312 NO_ROUTE). Declare it, or correct the topic.`
          : `Message ${oneLine(id)} was not routed: no queue is bound to exchange '${oneLine(exchange)}' for routing key '${oneLine(topic)}' (312 ` +
            'NO_ROUTE). Bind one, or give the exchange an alternate exchange.'
    return { status: 'rejected', retryable: true, error: new RetryLaterError({ message }) }
  }
}
