import type { Channel } from 'amqplib'

/** The subscription of a channel, and the requests by which a closing channel waits for its queue. */
export class Subscription {
  readonly #channel: Channel
  readonly #queue: string
  readonly #tag: string
  #ended: Promise<unknown> | undefined

  constructor(channel: Channel, queue: string, tag: string) {
    this.#channel = channel
    this.#queue = queue
    this.#tag = tag
  }

  /** The queue delivers nothing more to the channel. A single active consumer passes its role on. */
  async end(): Promise<void> {
    this.#ended ??= this.#channel.cancel(this.#tag)
    await this.#ended
  }

  /**
   * Waits until the queue has received all settlements. While a quorum queue is behind, the broker's channel keeps settlements
   * in its memory. It sends them when the queue answers, and drops them when it is closed. A quorum queue executes the first of
   * these two requests only after earlier commands, so the channel has received an answer of the queue before the second
   * request.
   *
   * The end of the subscription is such a first request. Where the subscription must last until the channel is closed, or has
   * ended before, the first request is a second subscription, because a quorum queue answers a mere question without executing
   * earlier commands. The second subscription receives at most one message, which nobody handles. The queue takes it back last,
   * because the tag of the second subscription sorts after the other tag.
   *
   * @param ends whether no subscription must be left.
   */
  async settled({ ends }: { readonly ends: boolean }): Promise<void> {
    if (ends && this.#ended === undefined) await this.end()
    else {
      const consumerTag = `${this.#tag}.close`
      await this.#channel.prefetch(1)
      await this.#channel.consume(this.#queue, () => undefined, { consumerTag })
      if (ends) await this.#channel.cancel(consumerTag)
    }
    await this.#channel.checkQueue(this.#queue)
  }
}
