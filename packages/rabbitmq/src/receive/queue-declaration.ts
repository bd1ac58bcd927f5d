import { BrokerUnavailableError } from '@txbox/core'
import { OptionChecker, propertyOf } from '@txbox/core/internal'
import type { Channel, ChannelModel } from 'amqplib'
import { brokerVersion, isFrom43 } from '../connection/broker-version.ts'

/** The queue of a source, which is created if it does not exist. */
export interface RabbitmqQueueDeclaration {
  /**
   * The argument `x-queue-type`. `'quorum'` counts deliveries across processes, so that a message that crashes its consumer's
   * process eventually becomes a dead letter.
   */
  type: 'quorum' | 'classic'
  /**
   * The exchange that dead letters go to: the argument `x-dead-letter-exchange`. It must exist, and lead to a queue. The source
   * publishes a dead letter itself, with the original routing key, the reason in the header `txbox-error`, and `txbox-deliveries` and
   * `txbox-source`; it accepts the message when RabbitMQ has confirmed the dead letter. Until then the message waits. RabbitMQ itself
   * sends messages there that expire, or exceed its limit of deliveries: a quorum queue keeps such a message until the other queue has
   * confirmed it, and refuses new messages instead of dropping old ones when it is full (`x-dead-letter-strategy: at-least-once` and
   * `x-overflow: reject-publish`).
   */
  deadLetterExchange?: string | undefined
  /**
   * Whether only one consumer at a time receives, in the order of the queue: the argument `x-single-active-consumer`.
   *
   * @default false
   */
  singleActiveConsumer?: boolean | undefined
  /**
   * The number of redeliveries after which a quorum queue makes the message a dead letter, 1 to 1,000,000: the argument
   * `x-delivery-limit`. Without a dead letter exchange the broker drops the message. Set a limit above the attempts of the consumer.
   *
   * @default the limit of the broker: none before RabbitMQ 4, and 20 from 4.0
   */
  deliveryLimit?: number | undefined
  /**
   * A quorum queue of RabbitMQ 4.3 or later itself delays retries that the consumer does not hold, instead of retry queues: the
   * arguments `x-delayed-retry-type: failed`, `x-delayed-retry-min` and `x-delayed-retry-max`. The queue does not know the delay of
   * the consumer's policy: it waits for `minMs` times the number of failed deliveries, and for `maxMs` at most.
   *
   * @default retries that the consumer does not hold wait in retry queues
   */
  delayedRetry?: RabbitmqDelayedRetry | undefined
  /** Made whenever the source connects, so that a queue that is created again has them, too. @default none */
  bindings?: readonly RabbitmqBinding[] | undefined
}

/** The delays of a quorum queue, from RabbitMQ 4.3. */
export interface RabbitmqDelayedRetry {
  /** The delay after the first failed delivery, 1 ms to a day. */
  minMs: number
  /** The longest delay, `minMs` to a day. @default minMs */
  maxMs?: number | undefined
}

/** A route from an exchange to the queue of a source. */
export interface RabbitmqBinding {
  /** The exchange, 1 to 255 bytes. It must exist. */
  exchange: string
  /** The routing key of the binding, 0 to 255 bytes, such as `orders.*` for a topic exchange. */
  routingKey: string
  /** The arguments of the binding, such as the headers that a headers exchange compares. @default none */
  arguments?: Readonly<Record<string, unknown>> | undefined
}

const MAX_BINDINGS = 1000
const DAY_MS = 86_400_000

/** A declaration that has been checked. */
export class QueueDeclaration {
  readonly arguments: Readonly<Record<string, string | number | boolean>>
  readonly bindings: readonly RabbitmqBinding[]

  /** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
  constructor(declare: RabbitmqQueueDeclaration) {
    const check = new OptionChecker("rabbitmqSource, option 'declare'", declare).known(
      'type',
      'deadLetterExchange',
      'singleActiveConsumer',
      'deliveryLimit',
      'delayedRetry',
      'bindings',
    )
    const type = check.oneOf('type', ['quorum', 'classic'], '' as 'quorum')
    const isQuorum = type === 'quorum'
    for (const option of ['deliveryLimit', 'delayedRetry'] as const) {
      if (!isQuorum && declare[option] !== undefined) throw check.wrong(option, 'absent with a classic queue')
    }
    const exchange =
      declare.deadLetterExchange === undefined ? undefined : check.text('deadLetterExchange', { max: 255 })
    this.arguments = {
      'x-queue-type': type,
      ...(exchange === undefined ? {} : { 'x-dead-letter-exchange': exchange }),
      ...(exchange === undefined || !isQuorum
        ? {}
        : { 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' }),
      ...(check.flag('singleActiveConsumer', false) ? { 'x-single-active-consumer': true } : {}),
      ...(declare.deliveryLimit === undefined
        ? {}
        : { 'x-delivery-limit': check.integer('deliveryLimit', { min: 1, max: 1_000_000, default: 1 }) }),
      ...delayedRetryArguments(declare.delayedRetry),
    }
    this.bindings = checkedBindings(check, declare.bindings)
  }

  get isQuorum(): boolean {
    return this.arguments['x-queue-type'] === 'quorum'
  }

  get deadLetterExchange(): string | undefined {
    const exchange = this.arguments['x-dead-letter-exchange']
    return exchange === undefined ? undefined : String(exchange)
  }

  get hasSingleActiveConsumer(): boolean {
    return this.arguments['x-single-active-consumer'] === true
  }

  get hasDeliveryLimit(): boolean {
    return this.arguments['x-delivery-limit'] !== undefined
  }

  /** Whether the queue itself delays a delivery that returns to it after a failure. */
  get delaysFailed(): boolean {
    return this.arguments['x-delayed-retry-type'] !== undefined
  }

  /** Creates the queue and its bindings, if they do not exist. */
  async declare(model: ChannelModel, channel: Channel, queue: string): Promise<void> {
    if (this.delaysFailed) refuseEarlierVersion(model)
    await channel.assertQueue(queue, { durable: true, arguments: this.arguments })
    for (const { exchange, routingKey, arguments: headers } of this.bindings) {
      await channel.bindQueue(queue, exchange, routingKey, headers)
    }
  }
}

function delayedRetryArguments(
  delayedRetry: RabbitmqDelayedRetry | undefined,
): Record<string, string | number> {
  if (delayedRetry === undefined) return {}
  const where = "rabbitmqSource, option 'declare.delayedRetry'"
  const check = new OptionChecker(where, delayedRetry).known('minMs', 'maxMs')
  const minMs = check.integer('minMs', { min: 1, max: DAY_MS, default: Number.NaN })
  return {
    'x-delayed-retry-type': 'failed',
    'x-delayed-retry-min': minMs,
    'x-delayed-retry-max': check.integer('maxMs', { min: minMs, max: DAY_MS, default: minMs }),
  }
}

function checkedBindings(check: OptionChecker, bindings: unknown): readonly RabbitmqBinding[] {
  if (bindings === undefined) return []
  if (!Array.isArray(bindings) || bindings.length > MAX_BINDINGS) {
    throw check.wrong('bindings', `a list of at most ${MAX_BINDINGS} bindings`)
  }
  return bindings.map((binding: object, n) => {
    const where = `rabbitmqSource, option 'declare.bindings[${n}]'`
    const each = new OptionChecker(where, binding).known('exchange', 'routingKey', 'arguments')
    const [exchange, routingKey, headers] = ['exchange', 'routingKey', 'arguments'].map((name) =>
      propertyOf(binding, name),
    )
    if (!isShortString(exchange) || exchange === '') {
      throw each.wrong(
        'exchange',
        "the name of an exchange, 1 to 255 bytes. The exchange '' leads to each queue without a binding",
      )
    }
    if (!isShortString(routingKey)) throw each.wrong('routingKey', 'text of at most 255 bytes')
    if (
      headers !== undefined &&
      (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    ) {
      throw each.wrong('arguments', 'an object')
    }
    return {
      exchange,
      routingKey,
      ...(headers === undefined ? {} : { arguments: { ...headers } }),
    }
  })
}

function isShortString(text: unknown): text is string {
  return typeof text === 'string' && Buffer.byteLength(text) <= 255
}

function refuseEarlierVersion(model: ChannelModel): void {
  if (isFrom43(model)) return
  throw new BrokerUnavailableError(
    `The option 'declare.delayedRetry' needs RabbitMQ 4.3 or later, and this is RabbitMQ ${brokerVersion(model)}, whose queues would ` +
      'deliver at once what failed. Remove the option: retries then wait in retry queues.',
  )
}
