import { BrokerUnavailableError, type Delivery, type OpenSource } from '@txbox/core'
import { unlessAborted, within } from '@txbox/core/internal'
import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib'
import { BrokerDelivery, type Acknowledgement, type WaitsElsewhere } from './broker-delivery.ts'
import type { DeadLetterExchange } from './dead-letter-exchange.ts'
import type { SourcePublishing } from './source-publishing.ts'
import { GatheredWrites } from '../connection/gathered-writes.ts'
import { reasonOf } from '../connection/reason-of.ts'
import { restoredMessage, type RestoredMessage } from './retried-message.ts'
import type { RetryQueues } from './retry-queues.ts'

/** How long each step of closing may take. */
const CLOSE_TIMEOUT_MS = 2000

/**
 * One subscription of a queue, with its channel and connection. It never reconnects: after a failure the source opens
 * another one.
 */
export class ConsumingChannel<P> implements OpenSource<P> {
  readonly #model: ChannelModel
  readonly #channel: Channel
  readonly #name: string
  readonly #prefetch: number
  readonly #isCounted: boolean
  readonly #writes: GatheredWrites
  readonly #retryQueues: RetryQueues
  readonly #waits: WaitsElsewhere
  readonly #failed: (error: unknown) => void
  readonly #publishing: SourcePublishing
  readonly #deadLetters: DeadLetterExchange | undefined
  readonly #lifetime: AbortController
  /** The deliveries that `receive` has not returned yet. The broker sends no more deliveries than the prefetch. */
  readonly #buffer: BrokerDelivery<P>[] = []
  /** The unsettled deliveries, in the order of their delivery tags. */
  readonly #unsettled = new Set<BrokerDelivery<P>>()
  /** The deliveries that were accepted in this turn of the event loop. */
  #accepted: BrokerDelivery<P>[] = []
  #consumer: { readonly tag: string; readonly queue: string } | undefined
  /** Whether deliveries were received, and none of them had a key, so that no order can be broken. */
  #isUnordered = false
  #hasReceived = false
  #wake = Promise.withResolvers<void>()
  #failure: unknown
  #isClosing = false
  #answer: Promise<void> | undefined

  constructor(
    model: ChannelModel,
    channel: Channel,
    how: {
      name: string
      prefetch: number
      isCounted: boolean
      retryQueues: RetryQueues
      /** Whether the queue itself delays a delivery that returns to it after a failure. */
      delaysFailed: boolean
      failed: (error: unknown) => void
      lifetime: AbortController
      publishing: SourcePublishing
      deadLetters: DeadLetterExchange | undefined
    },
  ) {
    this.#model = model
    this.#channel = channel
    this.#name = how.name
    this.#prefetch = how.prefetch
    this.#isCounted = how.isCounted
    this.#writes = new GatheredWrites(model)
    this.#retryQueues = how.retryQueues
    this.#waits = how.delaysFailed
      ? async (_raw, { counted }) => (counted ? 'requeue' : undefined)
      : async (raw, retry) => ((await how.retryQueues.add(raw, retry)) ? 'ack-unanswered' : undefined)
    this.#failed = how.failed
    this.#publishing = how.publishing
    this.#deadLetters = how.deadLetters
    this.#lifetime = how.lifetime
    for (const emitter of [model, channel]) {
      emitter.on('error', (error: unknown) => this.#end(error))
      emitter.on('close', (error: unknown) => this.#end(error))
    }
  }

  async consume(queue: string): Promise<void> {
    await this.#channel.prefetch(this.#prefetch)
    const { consumerTag } = await this.#channel.consume(queue, (raw) => this.#received(raw))
    this.#consumer = { tag: consumerTag, queue }
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

  async close({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (!this.#isClosing && this.#failure === undefined) {
      this.#isClosing = true
      await unlessAborted(this.#disconnect(), signal).catch(() => undefined)
    }
    this.#end(undefined)
    this.#lifetime.abort()
  }

  async #disconnect(): Promise<void> {
    await within(this.#giveBackAll(), CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
    const gone = new Promise<void>((resolve) => void this.#model.once('close', () => resolve()))
    this.#model.close().catch(() => undefined)
    await within(gone, CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
  }

  async #giveBackAll(): Promise<void> {
    try {
      this.#acknowledge()
      const isUnordered = this.#isUnordered
      if (this.#consumer !== undefined) await this.#settleAtQueue(this.#consumer, isUnordered)
      this.#acknowledge()
      // A nack does not count the deliveries, if the broker distinguishes nack from reject. But a quorum queue without a delivery
      // limit puts them behind all other messages.
      if (this.#unsettled.size > 0 && isUnordered) this.#channel.nackAll(true)
      this.#lose(new BrokerUnavailableError(`The consumer of ${this.#name} disconnects.`))
      await this.#channel.close()
    } catch {
      // The channel has ended meanwhile, and the broker takes back all its deliveries.
    }
  }

  /**
   * Waits until the queue has received all settlements. While a quorum queue is behind, the broker's channel keeps settlements
   * in its memory. It sends them when the queue answers, and drops them when it is closed. A quorum queue executes the first of
   * these two requests only after earlier commands, so the channel has received an answer of the queue before the second
   * request.
   *
   * The subscription ends first only if there is no order to keep: at its end, the queue would pass the role of a single active
   * consumer on, and deliver later messages of a key while this channel still has unsettled deliveries. If the channel is
   * closed with its subscription, the queue takes these deliveries back to their places before. In that case the first request
   * is a second subscription, because a quorum queue answers a mere question without executing earlier commands. The second
   * subscription receives at most one message, which nobody handles. The queue takes it back last, because the tag of the
   * second subscription sorts after the other tag.
   */
  async #settleAtQueue(
    { tag, queue }: { readonly tag: string; readonly queue: string },
    isUnordered: boolean,
  ): Promise<void> {
    if (isUnordered) await this.#channel.cancel(tag)
    else {
      await this.#channel.prefetch(1)
      await this.#channel.consume(queue, () => undefined, { consumerTag: `${tag}.close` })
    }
    await this.#channel.checkQueue(queue)
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
    const restored = restoredMessage(raw, this.#retryQueues.has)
    const delivery = new BrokerDelivery<P>(restored, {
      isCounted: this.#isCounted,
      settle: (one, how) => this.#settle(one, how),
      waitsElsewhere: this.#waits,
      deadLetters: this.#deadLetters,
    })
    this.#isUnordered = delivery.key === undefined && (this.#isUnordered || !this.#hasReceived)
    this.#hasReceived = true
    this.#unsettled.add(delivery)
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
    if (!(await this.#retryQueues.add(raw, { delayMs: restMs, deliveries: earlierDeliveries }))) {
      // Too early is better than never.
      if (this.#unsettled.has(delivery)) this.#deliver(delivery)
      return
    }
    if (this.#unsettled.has(delivery)) await this.#settle(delivery, 'ack-unanswered')
  }

  async #settle(delivery: BrokerDelivery<P>, how: Acknowledgement): Promise<void> {
    this.#unsettled.delete(delivery)
    try {
      if (how === 'ack' || how === 'ack-unanswered') this.#accepted.push(delivery)
      else if (how === 'requeue-uncounted') this.#channel.nack(delivery.raw, false, true)
      else this.#channel.reject(delivery.raw, how === 'requeue')
    } catch (error) {
      // The client throws as soon as the channel has ended, which may be before it emits the event.
      this.#end(error)
      delivery.lose(this.#failure)
      return
    }
    if (how === 'ack-unanswered') this.#acknowledgeSoon()
    else await this.#answered(delivery)
  }

  /**
   * Waits until the broker has processed the settlements that were sent. The broker does not answer settlements, but it
   * processes the commands of a channel in order, and answers a request that follows the settlements. The settlements of one
   * turn of the event loop share a request.
   */
  async #answered(delivery: BrokerDelivery<P>): Promise<void> {
    this.#answer ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.#answer = undefined
        // The client throws on a channel that has ended.
        const answer = async (): Promise<unknown> => {
          this.#acknowledge()
          return this.#channel.prefetch(this.#prefetch)
        }
        answer().then(() => resolve(), reject)
      })
    })
    try {
      await this.#answer
    } catch (error) {
      this.#end(error)
      // The broker may not have received the settlement.
      delivery.lose(this.#failure)
    }
  }

  /** Acknowledges at the end of this turn of the event loop. */
  #acknowledgeSoon(): void {
    if (this.#accepted.length > 1) return
    setImmediate(() => {
      try {
        this.#acknowledge()
      } catch (error) {
        this.#end(error)
      }
    })
  }

  /**
   * Sends the acknowledgements of this turn. Each acknowledgement is a write to the socket, so one acknowledgement covers all
   * accepted deliveries before the oldest unsettled delivery. Later deliveries are acknowledged one by one.
   */
  #acknowledge(): void {
    const accepted = this.#accepted
    this.#accepted = []
    if (accepted.length > 1) this.#writes.gather()
    const [oldest] = this.#unsettled
    const bound = oldest?.tag ?? Infinity
    let last: BrokerDelivery<P> | undefined
    for (const delivery of accepted) {
      if (delivery.tag > bound) this.#channel.ack(delivery.raw)
      else if (last === undefined || delivery.tag > last.tag) last = delivery
    }
    if (last !== undefined) this.#channel.ack(last.raw, true)
  }

  #end(cause: unknown): void {
    if (this.#failure !== undefined) return
    const why = cause === undefined || cause === null ? 'it was closed' : reasonOf(cause)
    this.#failure = new BrokerUnavailableError(`The connection to ${this.#name} broke: ${why}.`, { cause })
    this.#lose(this.#failure)
    this.#publishing.close()
    this.#wake.resolve()
    if (this.#isClosing) return
    this.#failed(this.#failure)
    // If only the channel failed, the connection must be closed, too. Before the queue is subscribed, `consume` throws the
    // broker's reason, which an abort would hide.
    if (this.#consumer !== undefined) this.#lifetime.abort()
  }

  #lose(reason: unknown): void {
    this.#buffer.length = 0
    for (const delivery of this.#unsettled) delivery.lose(reason)
    this.#unsettled.clear()
  }
}
