import { BrokerUnavailableError, type Delivery, type OpenSource } from '@txbox/core'
import { unlessAborted, within } from '@txbox/core/internal'
import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib'
import { BrokerDelivery, type Acknowledgement, type WaitsElsewhere } from './broker-delivery.ts'
import type { DeadLetterExchange } from './dead-letter-exchange.ts'
import type { DeliveryReader } from './delivery-reader.ts'
import type { SourcePublishing } from './source-publishing.ts'
import { GatheredWrites } from '../connection/gathered-writes.ts'
import { reasonOf } from '../connection/reason-of.ts'
import { restoredMessage, type RestoredMessage } from './retried-message.ts'
import type { RetryQueues } from './retry-queues.ts'
import { Settlements } from './settlements.ts'
import { Subscription } from './subscription.ts'

/** How long each step of closing may take. */
const CLOSE_TIMEOUT_MS = 2000

/** What a channel knows about its queue, and what it needs. */
export interface ConsumingSettings<P> {
  /** The queue and the broker, in error messages. */
  readonly name: string
  readonly prefetch: number
  readonly reader: DeliveryReader
  /** Whether the queue is known to have no single active consumer: several consumers receive at the same time. */
  readonly isShared: boolean
  /** Whether a delivery that is returned by a nack keeps its place in the queue. */
  readonly nackKeepsPlace: boolean
  readonly failed: (error: unknown) => void
  /** Called for each delivery that is lost before `receive` has returned it. */
  readonly lost?: ((delivery: Delivery<P>) => void) | undefined
  readonly lifetime: AbortController
  readonly publishing: SourcePublishing
  readonly deadLetters: DeadLetterExchange | undefined
  readonly retryQueues: RetryQueues
  /** Whether the queue itself delays a delivery that returns to it after a failure. */
  readonly delaysFailed: boolean
}

/**
 * One subscription of a queue, with its channel and connection. It never reconnects: after a failure the source opens
 * another one.
 */
export class ConsumingChannel<P> implements OpenSource<P> {
  readonly #model: ChannelModel
  readonly #channel: Channel
  readonly #how: ConsumingSettings<P>
  readonly #settlements: Settlements<P>
  readonly #waitsElsewhere: WaitsElsewhere
  /** The deliveries that `receive` has not returned yet. The broker sends no more deliveries than the prefetch. */
  readonly #buffer: BrokerDelivery<P>[] = []
  #subscription: Subscription | undefined
  /** The deliveries that `close` returns as failed attempts. */
  readonly #countedReturns = new Set<BrokerDelivery<P>>()
  /** Whether deliveries were received, and none of them had a key, so that no order can be broken. */
  #isUnordered = false
  #hasReceived = false
  #wake = Promise.withResolvers<void>()
  #failure: Error | undefined
  #isClosing = false

  constructor(model: ChannelModel, channel: Channel, how: ConsumingSettings<P>) {
    this.#model = model
    this.#channel = channel
    this.#how = how
    this.#settlements = new Settlements(channel, {
      prefetch: how.prefetch,
      writes: new GatheredWrites(model),
      failed: (error) => this.#end(error),
    })
    this.#waitsElsewhere = how.delaysFailed
      ? async (_raw, { counted }) => (counted ? 'requeue' : undefined)
      : async (raw, retry) => ((await how.retryQueues.add(raw, retry)) ? 'ack-unanswered' : undefined)
    for (const emitter of [model, channel]) {
      emitter.on('error', (error: unknown) => this.#end(error))
      emitter.on('close', (error: unknown) => this.#end(error))
    }
  }

  async consume(queue: string): Promise<void> {
    await this.#channel.prefetch(this.#how.prefetch)
    const { consumerTag } = await this.#channel.consume(queue, (raw) => this.#received(raw))
    this.#subscription = new Subscription(this.#channel, queue, consumerTag)
    if (this.#failure !== undefined) throw this.#failure
  }

  async receive(limit: number, { signal }: { signal: AbortSignal }): Promise<readonly Delivery<P>[]> {
    if (this.#failure === undefined && !signal.aborted && this.#buffer.length > 0) {
      return this.#buffer.splice(0, limit)
    }
    const wake = (): void => this.#wake.resolve()
    signal.addEventListener('abort', wake)
    try {
      for (;;) {
        if (this.#failure !== undefined) throw this.#failure
        if (signal.aborted) return []
        if (this.#buffer.length > 0) return this.#buffer.splice(0, limit)
        await this.#wake.promise
        this.#wake = Promise.withResolvers()
      }
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  stopReceiving(): void {
    if (this.#endsEarly) void this.#endSubscription()
  }

  async close({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (!this.#isClosing && this.#failure === undefined) {
      this.#isClosing = true
      await unlessAborted(this.#disconnect(), signal).catch(() => undefined)
    }
    this.#end(undefined)
    this.#how.lifetime.abort()
  }

  async #disconnect(): Promise<void> {
    await within(this.#giveBackAll(), CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
    const gone = new Promise<void>((resolve) => void this.#model.once('close', () => resolve()))
    this.#model.close().catch(() => undefined)
    await within(gone, CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
  }

  /**
   * Returns the unsettled deliveries to their places. By nack where that keeps the place, because a nack does not count the
   * deliveries if the broker distinguishes it from a reject. Otherwise the queue takes them back when the channel is closed
   * with its subscription: if the subscription of a single active consumer ended first, the next consumer would receive later
   * messages of a key in between.
   */
  async #giveBackAll(): Promise<void> {
    try {
      this.#settlements.acknowledge()
      const nacks = this.#isUnordered || (this.#how.isShared && this.#how.nackKeepsPlace)
      await this.#subscription?.settled({ ends: nacks })
      this.#settlements.acknowledge()
      if (nacks) {
        for (const delivery of this.#countedReturns) this.#channel.reject(delivery.raw, true)
        this.#channel.nackAll(true)
      }
      this.#lose(new BrokerUnavailableError(`The consumer of ${this.#how.name} disconnects.`))
      await this.#channel.close()
    } catch {
      // The channel has ended meanwhile, and the broker takes back all its deliveries.
    }
  }

  /** Whether the subscription may end before the channel is closed: no order of a single active consumer can break. */
  get #endsEarly(): boolean {
    return this.#isUnordered || this.#how.isShared
  }

  /** Returns the deliveries that nobody has received when the queue delivers nothing more. */
  async #endSubscription(): Promise<void> {
    try {
      await this.#subscription?.end()
    } catch (error) {
      this.#end(error)
      return
    }
    for (const delivery of this.#buffer.splice(0)) {
      void delivery.retry({ counted: false, stopping: true })
    }
  }

  /**
   * Returns a delivery of a consumer that stops. While the subscription lasts, the queue could deliver the message to this
   * channel again. A message with a key waits for the close of the channel: the next consumer would handle it at once, beside
   * a handler that still runs for an earlier message of the key.
   */
  async #return(delivery: BrokerDelivery<P>, isCounted: boolean): Promise<void> {
    if (delivery.key !== undefined || !this.#endsEarly) {
      if (isCounted) this.#countedReturns.add(delivery)
      return
    }
    await this.#endSubscription()
    if (this.#settlements.isUnsettled(delivery)) {
      await this.#settlements.settle(delivery, isCounted ? 'requeue' : 'requeue-uncounted')
    }
  }

  #received(raw: ConsumeMessage | null): void {
    if (raw === null) {
      this.#end(
        new Error(
          'the broker has cancelled the subscription: the queue was deleted, or a delivery was kept for longer than its consumer_timeout',
        ),
      )
      return
    }
    const restored = restoredMessage(raw, this.#how.retryQueues.has)
    const contents = this.#how.reader.read<P>(restored.raw, restored.earlierDeliveries, raw)
    const delivery = new BrokerDelivery<P>(restored.raw, contents, {
      settle: (one, how) => this.#settle(one, how),
      waitsElsewhere: this.#waitsElsewhere,
      deadLetters: this.#how.deadLetters,
    })
    this.#isUnordered = delivery.key === undefined && (this.#isUnordered || !this.#hasReceived)
    this.#hasReceived = true
    this.#settlements.add(delivery)
    if (restored.restMs > 0) void this.#moveOn(delivery, restored)
    else this.#deliver(delivery)
  }

  #deliver(delivery: BrokerDelivery<P>): void {
    this.#buffer.push(delivery)
    this.#wake.resolve()
  }

  /** Moves a message to another retry queue: its delay was longer than that of the first one. */
  async #moveOn(
    delivery: BrokerDelivery<P>,
    { raw, restMs, earlierDeliveries }: RestoredMessage,
  ): Promise<void> {
    if (!(await this.#how.retryQueues.add(raw, { delayMs: restMs, deliveries: earlierDeliveries }))) {
      // Too early is better than never.
      if (this.#settlements.isUnsettled(delivery)) this.#deliver(delivery)
      return
    }
    if (this.#settlements.isUnsettled(delivery)) await this.#settlements.settle(delivery, 'ack-unanswered')
  }

  #settle(delivery: BrokerDelivery<P>, how: Acknowledgement): Promise<void> {
    if (how === 'return' || how === 'return-uncounted') return this.#return(delivery, how === 'return')
    return this.#settlements.settle(delivery, how)
  }

  /** @returns the failure of the channel. */
  #end(cause: unknown): Error {
    if (this.#failure !== undefined) return this.#failure
    const why = cause === undefined || cause === null ? 'it was closed' : reasonOf(cause)
    const failure = new BrokerUnavailableError(`The connection to ${this.#how.name} broke: ${why}.`, {
      cause,
    })
    this.#failure = failure
    if (!this.#isClosing) for (const delivery of this.#buffer) this.#how.lost?.(delivery)
    this.#lose(failure)
    this.#how.publishing.close()
    this.#wake.resolve()
    if (this.#isClosing) return failure
    this.#how.failed(failure)
    // If only the channel failed, the connection must be closed, too. Before the queue is subscribed, `consume` throws the
    // broker's reason, which an abort would hide.
    if (this.#subscription !== undefined) this.#how.lifetime.abort()
    return failure
  }

  #lose(reason: unknown): void {
    this.#buffer.length = 0
    this.#settlements.loseAll(reason)
  }
}
