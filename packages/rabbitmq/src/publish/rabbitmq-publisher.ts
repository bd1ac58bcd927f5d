import {
  BrokerUnavailableError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { OrderedBatch, SharedConnection, unlessAborted } from '@txbox/core/internal'
import { BrokerConnection, type ConnectionSettings } from './broker-connection.ts'
import { PublishCall, type CallSettings } from './publish-call.ts'
import { mayBlameOneMessage, publishOneByOne } from './publish-one-by-one.ts'
import { rabbitmqPublisherOptions, type RabbitmqPublisherOptions } from './rabbitmq-options.ts'
import { RoutedKeys } from './routed-keys.ts'
import { StuckKeys } from './stuck-keys.ts'

/** A channel that has not answered for this long is blocked, if the broker answers on another channel. */
const BLOCKED_AFTER_MS = 1000

/** The maximum number of messages of a call that are sent at the same time on channels of their own. */
const MOST_ALONE = 64

/**
 * Publishes to a RabbitMQ exchange, with publisher confirms: a message is accepted when the broker has taken
 * responsibility for it in every queue that it was routed to, on disk where the queue is durable.
 *
 * On the wire: routing key = topic; persistent; `message-id` = id; `type`, `correlation-id`, `content-type` and
 * `content-encoding` as in the message; `timestamp` = when it was created, in seconds; the message's headers, its ordering key
 * as the header `txbox-key`, and the time of its creation with milliseconds as the header `txbox-time`, in RFC 3339. The body is
 * the payload, byte for byte.
 *
 * - A message that cannot be routed to a queue (no binding, no such queue) is rejected, and can be tried again. If this publisher
 *   has seen its routing key routed before, one of the last 10,000, no attempt is counted: every 30 s one message with this key is
 *   sent, and the others are rejected in the same way, until the broker routes one.
 * - A message that a queue refuses, such as a full one, is rejected, and can be tried again without counting an attempt.
 * - A message that AMQP or the broker cannot accept unchanged is rejected permanently, before it is sent: a payload above
 *   `maxMessageBytes`, an id, topic, type, correlation id or content type of more than 255 bytes in UTF-8, headers of more than
 *   64 KiB or than a frame of the connection, a header `CC` or `BCC`, which RabbitMQ obeys, a lone surrogate in any of these texts,
 *   in the key, or in a header.
 * - If the broker answers, but does not confirm a message in time, a queue of that message has a problem: the message is
 *   rejected, and can be tried again without counting an attempt. Until the broker confirms a message with its routing key
 *   again, one message with this key is sent every 30 s, on a channel of its own, and the others are rejected in the same way.
 * - All other failures throw: no connection, no such exchange, no confirms, or `signal` aborted. It is then unknown which
 *   messages were published. The connection is dropped, and other calls in flight on it fail; the next call connects again.
 *
 * The publisher connects at its first call. Calls may overlap. All messages of a call are in flight together,
 * up to 2000 messages of all calls and 1500 of one routing key; while the connection is congested, no more messages are added
 * to its buffer.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function rabbitmqPublisher(options: RabbitmqPublisherOptions): Publisher {
  const { connection, confirmTimeoutMs, maxMessageBytes } = rabbitmqPublisherOptions(options)
  return new RabbitmqPublisher(connection, {
    exchange: connection.exchange,
    stuckKeys: new StuckKeys(),
    routedKeys: new RoutedKeys(),
    confirmTimeoutMs,
    maxMessageBytes,
  })
}

class RabbitmqPublisher implements Publisher {
  readonly ordering = 'per-key'
  readonly cloudEvents = { prefix: 'cloudEvents:', contentTypeAsAttribute: false, percentEncode: false }
  readonly system = 'rabbitmq'
  readonly server: Publisher['server']
  readonly #name: string
  readonly #connection: SharedConnection<BrokerConnection>
  readonly #settings: CallSettings

  constructor(connection: ConnectionSettings, settings: CallSettings) {
    const { name, server } = connection.address
    this.server = server
    this.#name = name
    this.#settings = settings
    this.#connection = new SharedConnection(
      (lifetime) => BrokerConnection.open(connection, lifetime),
      () =>
        new BrokerUnavailableError(
          `The publisher for RabbitMQ at ${name} is closed. It is unknown whether messages in flight were published. Create a new publisher.`,
        ),
    )
  }

  async publish(
    messages: readonly OutboxMessage[],
    options: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    const { signal, answered } = options
    signal.throwIfAborted()
    if (messages.length === 0) return []
    const batch = new OrderedBatch(messages)
    while (batch.unknown > 0) {
      const connection = await this.#connection.get(signal)
      const call = new PublishCall(connection.channel, batch, this.#settings, answered)
      try {
        if ((await call.run(signal)) === 'timed-out') await this.#timedOut(call, connection, batch)
        else await this.#eachAlone(call.alone, connection, batch, options)
      } catch (error) {
        if (signal.aborted || !mayBlameOneMessage(connection.channel)) throw this.#drop(connection, error)
        await this.#oneByOne(batch, options)
      }
    }
    return batch.results as PublishResult[]
  }

  async check({ signal }: { signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted()
    const connection = await this.#connection.get(signal)
    await unlessAborted(connection.check(), signal)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  async #oneByOne(batch: OrderedBatch, options: PublishOptions): Promise<void> {
    const connection = await this.#connection.get(options.signal)
    try {
      const unconfirmed = await publishOneByOne(connection, batch, this.#settings, options)
      if (unconfirmed !== undefined) await this.#timedOut(unconfirmed, connection, batch)
    } catch (error) {
      throw this.#drop(connection, error)
    }
  }

  /**
   * Sends the first of these messages of each routing key, each on a channel of its own. Of a key that is confirmed, the other
   * messages can then be sent together.
   */
  async #eachAlone(
    places: readonly number[],
    connection: BrokerConnection,
    batch: OrderedBatch,
    { signal, answered }: PublishOptions,
  ): Promise<void> {
    const { stuckKeys, confirmTimeoutMs } = this.#settings
    const firsts = new Map(places.toReversed().map((place) => [batch.messages[place]!.topic, place]))
    // With half the time, the relay gets a result before its own time limit, also after a call that has timed out.
    const settings = { ...this.#settings, stuckKeys: new StuckKeys(), confirmTimeoutMs: confirmTimeoutMs / 2 }
    const sending = [...firsts].slice(0, MOST_ALONE).map(async ([routingKey, place]) => {
      const call = await publishOneByOne(connection, new OrderedBatch([batch.messages[place]!]), settings, {
        signal,
        answered: (_, result) => {
          batch.settle(place, result)
          answered?.(place, result)
        },
      })
      if (call === undefined) return stuckKeys.answered(routingKey)
      stuckKeys.add(routingKey)
      call.rejectUnconfirmed()
      // A late confirm must not be mistaken for a confirm of a later attempt.
      call.channel.abandon(this.#unconfirmed(connection, batch))
    })
    // No call may report a result after this one has ended.
    await Promise.allSettled(sending)
    await Promise.all(sending)
  }

  /**
   * Distinguishes a problem of queues from a problem of the broker. If the broker answers, the messages in flight are
   * rejected, and the messages that were not sent can be sent over the next connection. But if a queue has blocked the channel,
   * it is not known which: each routing key is tried alone.
   */
  async #timedOut(call: PublishCall, connection: BrokerConnection, batch: OrderedBatch): Promise<void> {
    const { stuckKeys, confirmTimeoutMs } = this.#settings
    const error = this.#unconfirmed(connection, batch)
    const since = performance.now() - confirmTimeoutMs
    const unblocked = call.channel.answers(BLOCKED_AFTER_MS)
    if (!(await connection.answers(confirmTimeoutMs))) throw error
    const routingKeys = call.channel.byKey.unansweredSince(since)
    const isBlocked = routingKeys.length > 1 && !(await unblocked)
    if (isBlocked) stuckKeys.suspect(routingKeys)
    else for (const routingKey of routingKeys) stuckKeys.add(routingKey)
    // A late confirm must not be mistaken for a confirm of a later attempt.
    connection.drop(error)
    if (!isBlocked) call.rejectUnconfirmed()
  }

  #unconfirmed(connection: BrokerConnection, batch: OrderedBatch): BrokerUnavailableError {
    const why =
      connection.blocked === undefined
        ? 'Check its log and its queues, or raise confirmTimeoutMs.'
        : `It has blocked publishers: ${connection.blocked}. Give it more memory or disk.`
    return new BrokerUnavailableError(
      `RabbitMQ at ${this.#name} left ${batch.unknown} of ${batch.messages.length} messages unconfirmed for ` +
        `${this.#settings.confirmTimeoutMs} ms. ${why}`,
    )
  }

  /** Drops the connection, so that no buffered message is sent. @returns the error to throw. */
  #drop(connection: BrokerConnection, error: unknown): unknown {
    connection.drop(
      error instanceof BrokerUnavailableError
        ? error
        : new BrokerUnavailableError(
            `The connection to RabbitMQ at ${this.#name} was dropped, because another call on it was aborted.`,
            { cause: error },
          ),
    )
    return error
  }
}
