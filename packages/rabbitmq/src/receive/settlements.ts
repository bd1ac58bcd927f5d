import type { Channel } from 'amqplib'
import type { Acknowledgement, BrokerDelivery } from './broker-delivery.ts'
import type { GatheredWrites } from '../connection/gathered-writes.ts'

/** A settlement that is sent now. A return may have to wait until the channel is closed. */
type Settlement = Exclude<Acknowledgement, 'return' | 'return-uncounted'>

interface SettlementsHow {
  readonly prefetch: number
  readonly writes: GatheredWrites
  /** Called when the channel has refused a command. @returns the error with which the delivery is lost. */
  readonly failed: (error: unknown) => Error
}

/** The unsettled deliveries of one channel, and the commands that settle them. */
export class Settlements<P> {
  readonly #channel: Channel
  readonly #how: SettlementsHow
  /** In the order of their delivery tags. */
  readonly #unsettled = new Set<BrokerDelivery<P>>()
  /** The accepted deliveries whose acknowledgement was not sent yet. */
  #accepted: BrokerDelivery<P>[] = []
  #acknowledgesSoon = false
  /** The answer to the next request. */
  #answer: Promise<void> | undefined
  /** Resolves when the request in flight has ended. */
  #asked: Promise<void> | undefined

  constructor(channel: Channel, how: SettlementsHow) {
    this.#channel = channel
    this.#how = how
  }

  add(delivery: BrokerDelivery<P>): void {
    this.#unsettled.add(delivery)
  }

  isUnsettled(delivery: BrokerDelivery<P>): boolean {
    return this.#unsettled.has(delivery)
  }

  /** Called when the channel has ended: the broker takes back the deliveries. */
  loseAll(reason: unknown): void {
    for (const delivery of this.#unsettled) delivery.lose(reason)
    this.#unsettled.clear()
  }

  /** Resolves when the broker has processed the settlement; for `ack-unanswered`, at once. */
  async settle(delivery: BrokerDelivery<P>, how: Settlement): Promise<void> {
    this.#unsettled.delete(delivery)
    try {
      if (how === 'ack' || how === 'ack-unanswered') this.#accepted.push(delivery)
      else if (how === 'requeue-uncounted') this.#channel.nack(delivery.raw, false, true)
      else this.#channel.reject(delivery.raw, how === 'requeue')
    } catch (error) {
      // The client throws as soon as the channel has ended, which may be before it emits the event.
      delivery.lose(this.#how.failed(error))
      return
    }
    if (how === 'ack-unanswered') this.#acknowledgeSoon()
    else await this.#answered(delivery)
  }

  /**
   * Waits until the broker has processed the settlements that were sent. The broker does not answer settlements, but it
   * processes the commands of a channel in order, and answers a request that follows the settlements.
   */
  async #answered(delivery: BrokerDelivery<P>): Promise<void> {
    this.#answer ??= this.#ask()
    try {
      await this.#answer
    } catch (error) {
      // The broker may not have received the settlement.
      delivery.lose(this.#how.failed(error))
    }
  }

  /**
   * Sends the acknowledgements and one request for all settlements since the request before, when that one was answered. One request
   * for each turn of the event loop made half of the rate: 7,400 writes instead of 1,200 for 20,000 messages of 1000 keys.
   *
   * @throws an error of the client, also if the channel has ended.
   */
  async #ask(): Promise<void> {
    await this.#asked
    await new Promise((resolve) => setImmediate(resolve))
    this.#answer = undefined
    this.acknowledge()
    const asked = this.#channel.prefetch(this.#how.prefetch)
    this.#asked = asked.then(
      () => undefined,
      () => undefined,
    )
    await asked
  }

  /** Acknowledges at the end of this turn of the event loop. */
  #acknowledgeSoon(): void {
    if (this.#acknowledgesSoon) return
    this.#acknowledgesSoon = true
    setImmediate(() => {
      this.#acknowledgesSoon = false
      try {
        this.acknowledge()
      } catch (error) {
        this.#how.failed(error)
      }
    })
  }

  /**
   * Sends the acknowledgements that have gathered. Each acknowledgement is a write to the socket, so one acknowledgement covers all
   * accepted deliveries before the oldest unsettled delivery. Later deliveries are acknowledged one by one.
   */
  acknowledge(): void {
    const accepted = this.#accepted
    this.#accepted = []
    if (accepted.length > 1) this.#how.writes.gather()
    const [oldest] = this.#unsettled
    const bound = oldest?.tag ?? Infinity
    let last: BrokerDelivery<P> | undefined
    for (const delivery of accepted) {
      if (delivery.tag > bound) this.#channel.ack(delivery.raw)
      else if (last === undefined || delivery.tag > last.tag) last = delivery
    }
    if (last !== undefined) this.#channel.ack(last.raw, true)
  }
}
