import { PermanentError, RetryLaterError } from '@txbox/core'
import { oneLine, pause, within } from '@txbox/core/internal'
import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib'
import { reasonOf, replyCodeOf } from '../connection/reason-of.ts'
import { isUnroutable } from './publishing-channel.ts'
import { retryProperties } from './retried-message.ts'
import type { SourcePublishing } from './source-publishing.ts'

/**
 * The delays of the retry queues, in seconds. A queue has one delay for all its messages, because RabbitMQ removes a message whose
 * time is over only when it has become the first of its queue.
 */
const STEPS_S = [1, 5, 30, 120, 300, 900, 3600] as const

/** How long the consumer holds its retries after a failure, before another message is moved. */
const PAUSE_AFTER_FAILURE_MS = 30_000
const PAUSE_AFTER_OUTAGE_MS = 1000

/** How long the broker may take to declare a queue. */
const DECLARE_TIMEOUT_MS = 10_000

/**
 * How long a new queue is not used. RabbitMQ saves the names of its quorum queues half a second later: if it is killed before, a
 * new queue is empty afterwards, whatever it has confirmed.
 */
const NEW_QUEUE_MS = 1000

/** A retry that must wait outside of its queue. */
export interface Retry {
  readonly delayMs: number
  /** The number of deliveries that count. */
  readonly deliveries: number
}

/**
 * Moves messages to queues in which they wait for their next attempt: `<queue>.txbox-retry-<seconds>`. When its time is over,
 * RabbitMQ moves a message back to the end of its queue. The retry queues are declared when they are first needed, as quorum
 * queues: these keep a message until the queue has it again.
 */
export class RetryQueues {
  readonly #queue: string
  readonly #user: string
  readonly #model: ChannelModel
  readonly #publishing: SourcePublishing
  readonly #warn: (text: string) => void
  /** The retry queues that exist, or are being declared. */
  readonly #declared = new Map<number, Promise<void>>()
  #pausedUntil = -Infinity
  #isRefused = false

  constructor(how: {
    readonly queue: string
    readonly user: string
    readonly model: ChannelModel
    readonly publishing: SourcePublishing
    readonly warn: (text: string) => void
  }) {
    this.#queue = how.queue
    this.#user = how.user
    this.#model = how.model
    this.#publishing = how.publishing
    this.#warn = how.warn
  }

  /** @returns whether this is the name of a retry queue of the queue. */
  readonly has = (name: unknown): boolean => STEPS_S.some((seconds) => this.#nameOf(seconds) === name)

  /**
   * Publishes the message to the retry queue of the next longer delay, and waits until the broker has it.
   *
   * @param raw the message as it was received first.
   * @returns `false` if the retry queues cannot be used now.
   */
  async add(raw: ConsumeMessage, { delayMs, deliveries }: Retry): Promise<boolean> {
    if (this.#isRefused || performance.now() < this.#pausedUntil) return false
    const seconds = STEPS_S.find((step) => step * 1000 >= delayMs) ?? STEPS_S.at(-1)!
    const restMs = Math.max(0, Math.ceil(delayMs - seconds * 1000))
    const send = async (): Promise<void> => {
      await this.#exists(seconds)
      const properties = retryProperties(raw, this.#user, { deliveries, restMs })
      await this.#publishing.publish('', this.#nameOf(seconds), raw.content, properties)
    }
    try {
      try {
        await send()
      } catch (error) {
        if (!isUnroutable(error)) throw error
        // The queue was deleted after it was declared.
        this.#declared.delete(seconds)
        await send()
      }
      return true
    } catch (error) {
      this.#failed(seconds, error)
      return false
    }
  }

  #nameOf(seconds: number): string {
    return `${this.#queue}.txbox-retry-${seconds}`
  }

  async #exists(seconds: number): Promise<void> {
    const existing = this.#declared.get(seconds) ?? this.#declare(seconds)
    this.#declared.set(seconds, existing)
    try {
      await existing
    } catch (error) {
      this.#declared.delete(seconds)
      throw error
    }
  }

  async #declare(seconds: number): Promise<void> {
    const name = this.#nameOf(seconds)
    const queue = {
      durable: true,
      arguments: {
        'x-queue-type': 'quorum',
        'x-message-ttl': seconds * 1000,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': this.#queue,
        'x-dead-letter-strategy': 'at-least-once',
        'x-overflow': 'reject-publish',
      },
    }
    const exists = await this.#ask((channel) => channel.checkQueue(name)).then(
      () => true,
      () => false,
    )
    await this.#ask((channel) => channel.assertQueue(name, queue))
    if (!exists) await pause(NEW_QUEUE_MS)
  }

  /** Asks on a channel of its own, because the broker closes the channel if it refuses. */
  async #ask(request: (channel: Channel) => Promise<unknown>): Promise<void> {
    const channel = await this.#model.createChannel()
    channel.on('error', () => undefined)
    await within(request(channel), DECLARE_TIMEOUT_MS, (ms) => {
      throw new RetryLaterError({ message: `RabbitMQ did not answer within ${ms} ms` })
    })
    await channel.close()
  }

  #failed(seconds: number, error: unknown): void {
    // The message itself does not fit into AMQP with the headers of a retry.
    if (error instanceof PermanentError) return
    const code = replyCodeOf(error)
    const isUnavailable = code === undefined && !(error instanceof RetryLaterError)
    this.#pausedUntil = performance.now() + (isUnavailable ? PAUSE_AFTER_OUTAGE_MS : PAUSE_AFTER_FAILURE_MS)
    if (isUnavailable) return
    this.#isRefused = code !== undefined
    const queue = `'${oneLine(this.#nameOf(seconds))}'`
    const advice =
      code === 406
        ? `Delete the queue ${queue} when it is empty, and the consumer declares it again.`
        : `Give the user the permissions to configure and read queues named '${oneLine(this.#queue)}.txbox-retry-<seconds>', and to ` +
          "write to 'amq.default'."
    this.#warn(
      `Messages that wait for a retry cannot be moved to the queue ${queue}: ${reasonOf(error)}. The consumer holds them instead, so ` +
        `that messages which fail can stop the others. ${advice}`,
    )
  }
}
