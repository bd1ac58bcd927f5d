import { BrokerUnavailableError, type OpenSource, type Source, type SourceTraits } from '@txbox/core'
import { OptionChecker, oneLine } from '@txbox/core/internal'
import type { Channel, ChannelModel } from 'amqplib'
import { brokerAddress, type BrokerAddress } from '../connection/broker-address.ts'
import { connectBroker, type ConnectSettings } from '../connection/connect-broker.ts'
import { ConsumingChannel, type ConsumingSettings } from './consuming-channel.ts'
import { DeadLetterExchange } from './dead-letter-exchange.ts'
import { SourcePublishing } from './source-publishing.ts'
import { reasonOf, replyCodeOf } from '../connection/reason-of.ts'
import { tlsSettings, type RabbitmqTlsOptions } from '../connection/tls-settings.ts'

/** The queue of a source, which is created if it does not exist. */
export interface RabbitmqQueueDeclaration {
  /**
   * `'quorum'` counts deliveries across processes, so that a message that crashes its consumer's process eventually becomes
   * a dead letter.
   */
  type: 'quorum' | 'classic'
  /**
   * The exchange that dead letters go to. It must exist, and lead to a queue. The source publishes a dead letter itself, with the
   * original routing key, the reason in the header `txbox-error`, and `txbox-deliveries` and `txbox-source`; it accepts the
   * message when RabbitMQ has confirmed the dead letter. Until then the message waits. RabbitMQ itself sends messages there that
   * expire, or exceed its limit of deliveries: a quorum queue keeps such a message until the other queue has confirmed it, and
   * refuses new messages instead of dropping old ones when it is full.
   */
  deadLetterExchange?: string | undefined
  /** Whether only one consumer at a time receives, in the order of the queue. @default false */
  singleActiveConsumer?: boolean | undefined
  /**
   * The number of redeliveries after which a quorum queue makes the message a dead letter, 1 to 1,000,000. Without a dead
   * letter exchange the broker drops the message. Set a limit above the attempts of the consumer.
   *
   * @default the limit of the broker: none before RabbitMQ 4, and 20 from 4.0
   */
  deliveryLimit?: number | undefined
}

export interface RabbitmqSourceOptions {
  /**
   * `amqp://user:password@host:5672/vhost`, or `amqps://…` for TLS. Settings of the amqplib client belong in the
   * query, such as `?heartbeat=10` (seconds). Without a heartbeat there, it is 20 s.
   */
  url: string
  /** Certificates, if the broker's is from a private authority, or if the broker asks for one. For `amqps://` only. */
  tls?: RabbitmqTlsOptions | undefined
  /** The queue to consume, 1 to 255 bytes. */
  queue: string
  /** Creates the queue as durable if it does not exist. @default the queue must exist */
  declare?: RabbitmqQueueDeclaration | undefined
  /**
   * Whether rejected messages go to a dead letter exchange, by an argument of the queue or by a policy. RabbitMQ moves them there
   * without the reason.
   *
   * @default whether `declare` has a dead letter exchange
   */
  keepsRejected?: boolean | undefined
  /**
   * Whether this is a quorum queue, which counts deliveries. Otherwise a count in a message is not read: it comes from the
   * producer, or from a quorum queue that had the message before.
   *
   * @default whether `declare` has the type `'quorum'`
   */
  countsDeliveries?: boolean | undefined
  /** How long connecting may take, in ms. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
}

/**
 * Receives deliveries from a RabbitMQ queue. Messages are converted as by `fromRabbitmq`; the ordering key is the header
 * `txbox-key`, as `rabbitmqPublisher` writes it.
 *
 * RabbitMQ keeps no delays, so the consumer holds a delivery that waits for a retry. A counted retry returns the delivery by
 * `basic.reject` with requeue, and an uncounted retry by `basic.nack`: RabbitMQ 4.3 distinguishes them, and earlier versions
 * count both. The broker takes back a delivery that the consumer holds for longer than the broker's `consumer_timeout` (30
 * minutes; from 4.3 in quorum queues only), and the consumer connects again.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function rabbitmqSource<P = unknown>(options: RabbitmqSourceOptions): Source<P> {
  const check = new OptionChecker('rabbitmqSource', options).known(
    'url',
    'tls',
    'queue',
    'declare',
    'keepsRejected',
    'countsDeliveries',
    'connectTimeoutMs',
  )
  const queue = check.text('queue', { max: 255 })
  if (Buffer.byteLength(queue) > 255) throw check.wrong('queue', 'text of at most 255 bytes in UTF-8')
  const declared = declarationOf(options.declare)
  const settings: ConnectSettings = {
    address: brokerAddress(check),
    tls: tlsSettings(check, options.tls),
    connectTimeoutMs: check.milliseconds('connectTimeoutMs', { min: 10, max: 3_600_000, default: 10_000 }),
  }
  const isQuorum = declared?.['x-queue-type'] === 'quorum'
  const countsDeliveries = check.flag('countsDeliveries', isQuorum)
  return new RabbitmqSource<P>(settings, queue, declared, {
    delays: false,
    countsDeliveries,
    keepsRejected: check.flag('keepsRejected', declared?.['x-dead-letter-exchange'] !== undefined),
    ordersKeys: false,
    settlesInTransaction: false,
    leaseMs: undefined,
  })
}

type QueueArguments = Readonly<Record<string, string | number | boolean>>

function declarationOf(declare: RabbitmqQueueDeclaration | undefined): QueueArguments | undefined {
  if (declare === undefined) return undefined
  const check = new OptionChecker("rabbitmqSource, option 'declare'", declare).known(
    'type',
    'deadLetterExchange',
    'singleActiveConsumer',
    'deliveryLimit',
  )
  const type = check.oneOf('type', ['quorum', 'classic'], '' as 'quorum')
  const exchange =
    declare.deadLetterExchange === undefined ? undefined : check.text('deadLetterExchange', { max: 255 })
  const isQuorum = type === 'quorum'
  if (!isQuorum && declare.deliveryLimit !== undefined) {
    throw check.wrong('deliveryLimit', 'absent with a classic queue')
  }
  return {
    'x-queue-type': type,
    ...(exchange === undefined ? {} : { 'x-dead-letter-exchange': exchange }),
    ...(exchange === undefined || !isQuorum
      ? {}
      : { 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' }),
    ...(check.flag('singleActiveConsumer', false) ? { 'x-single-active-consumer': true } : {}),
    ...(declare.deliveryLimit === undefined
      ? {}
      : { 'x-delivery-limit': check.integer('deliveryLimit', { min: 1, max: 1_000_000, default: 1 }) }),
  }
}

class RabbitmqSource<P> implements Source<P> {
  readonly name: string
  readonly traits: SourceTraits
  readonly #settings: ConnectSettings
  readonly #queue: string
  readonly #declared: QueueArguments | undefined

  constructor(
    settings: ConnectSettings,
    queue: string,
    declared: QueueArguments | undefined,
    traits: SourceTraits,
  ) {
    this.#settings = settings
    this.#queue = queue
    this.#declared = declared
    this.traits = traits
    this.name = `rabbitmq ${oneLine(queue)}`
  }

  async open(how: { prefetch: number; failed: (error: unknown) => void }): Promise<OpenSource<P>> {
    const lifetime = new AbortController()
    const { address } = this.#settings
    const name = `queue '${oneLine(this.#queue)}' of RabbitMQ at ${address.name}`
    const declared = this.#declared
    const isShared = declared !== undefined && declared['x-single-active-consumer'] === undefined
    const connectionName = `txbox consumer of ${this.#queue}`
    const socket = { clientProperties: { connection_name: connectionName } }
    const publishing = new SourcePublishing(this.#settings, `${connectionName} (publishing)`)
    return connectBroker(this.#settings, lifetime, socket, async (model) => {
      // A failure while the queue is prepared rejects the calls below, too.
      model.on('error', () => undefined)
      const channel = await model.createChannel()
      channel.on('error', () => undefined)
      try {
        return await this.#subscribe(model, channel, {
          ...how,
          isCounted: this.traits.countsDeliveries,
          isShared,
          nackKeepsPlace: declared?.['x-delivery-limit'] !== undefined || isFrom43(model),
          name,
          lifetime,
          publishing,
          deadLetters: this.#deadLetters(publishing),
        })
      } catch (error) {
        throw replyCodeOf(error) === undefined ? error : refused(address, name, error)
      }
    })
  }

  #deadLetters(publishing: SourcePublishing): DeadLetterExchange | undefined {
    const exchange = this.#declared?.['x-dead-letter-exchange']
    if (typeof exchange !== 'string') return undefined
    return new DeadLetterExchange(publishing, exchange, {
      source: this.name,
      user: this.#settings.address.user,
    })
  }

  async #subscribe(model: ChannelModel, channel: Channel, how: ConsumingSettings): Promise<OpenSource<P>> {
    if (this.#declared !== undefined) {
      await channel.assertQueue(this.#queue, { durable: true, arguments: this.#declared })
    }
    const open = new ConsumingChannel<P>(model, channel, how)
    await open.consume(this.#queue)
    return open
  }
}

/**
 * Returns whether the broker is RabbitMQ 4.3 or later: a quorum queue then puts a message that is returned by a nack back to
 * its place, and does not count the delivery. Before, a queue without a delivery limit puts the message behind all others.
 */
function isFrom43({ connection }: ChannelModel): boolean {
  // Another broker that speaks the same protocol may send none.
  const version: unknown = connection.serverProperties['version']
  const [major = 0, minor = 0] = String(version).split('.').map(Number)
  return major > 4 || (major === 4 && minor >= 3)
}

function refused(address: BrokerAddress, name: string, error: unknown): BrokerUnavailableError {
  return new BrokerUnavailableError(
    `RabbitMQ at ${address.name} does not let this consumer use the ${name}: ${reasonOf(error)}. Create the queue, or let the ` +
      "option 'declare' create it as it is.",
    { cause: error },
  )
}
