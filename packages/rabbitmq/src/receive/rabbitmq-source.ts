import type { OpenSource, Source, SourceTraits } from '@txbox/core'
import { OptionChecker, oneLine, tlsOption } from '@txbox/core/internal'
import type { Channel, ChannelModel } from 'amqplib'
import { brokerAddress } from '../connection/broker-address.ts'
import { connectBroker, type ConnectSettings } from '../connection/connect-broker.ts'
import { ConsumingChannel, type ConsumingSettings } from './consuming-channel.ts'
import { DeadLetterExchange } from './dead-letter-exchange.ts'
import { DeliveryCounts } from './delivery-counts.ts'
import { DeliveryReader, type DeliveryFunctions, type RabbitmqSourceDelivery } from './delivery-reader.ts'
import { QueueDeclaration, type RabbitmqQueueDeclaration } from './queue-declaration.ts'
import { refusedSubscription } from './refused-subscription.ts'
import { RetryQueues } from './retry-queues.ts'
import { SourcePublishing } from './source-publishing.ts'
import { isFrom43 } from '../connection/broker-version.ts'
import { replyCodeOf } from '../connection/reason-of.ts'
import type { RabbitmqTlsOptions } from '../connection/tls-settings.ts'

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
   * Whether the queue counts deliveries, so that a message that crashes its process eventually becomes a dead letter. Only a
   * quorum queue does. Without this option and without `declare`, the deliveries show it: from RabbitMQ 4.3, `x-delivery-count`
   * is believed up to `x-acquired-count`; before, `x-delivery-count` is believed on a redelivered message, until a redelivered
   * message comes without this header, or a message comes with this header at its first delivery. `false`: counts are not
   * believed.
   *
   * @default according to `declare.type`; without `declare`, as the deliveries show
   */
  countsDeliveries?: boolean | undefined
  /**
   * Returns the id of a message, for producers that set no `message-id`. `undefined`: the message has no id. Then the key of
   * the message stands in, as the option `key` of the inbox (without an inbox, of the consumer) extracts it; if there is no such
   * key, the message becomes a dead letter. An error that the function throws makes the message a dead letter.
   *
   * @default the property `message-id`
   */
  id?: ((delivery: RabbitmqSourceDelivery) => string | undefined) | undefined
  /**
   * Returns the ordering key of a message. `undefined`: the message has no order. An error that the function throws makes the
   * message a dead letter.
   *
   * @default the header `txbox-key`, as `rabbitmqPublisher` writes it
   */
  key?: ((delivery: RabbitmqSourceDelivery) => string | undefined) | undefined
  /**
   * Whether the queue has a single active consumer. The consumer then never gives up the order of a key for a retry.
   *
   * @default whether `declare` has `singleActiveConsumer`
   */
  singleActiveConsumer?: boolean | undefined
  /** How long connecting may take, in ms. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
}

/**
 * Receives deliveries from a RabbitMQ queue. Messages are converted as by `fromRabbitmq`, except that a message may have no id;
 * the ordering key is the header `txbox-key`, as `rabbitmqPublisher` writes it.
 *
 * A consumer holds deliveries that wait for a retry, and at most half of its `prefetch`. Beyond it, and for longer delays than its
 * `holdMs`, a message waits in a retry queue, `<queue>.txbox-retry-<seconds>`, which is declared when it is first needed. The user
 * needs the permissions to configure and read these queues, and to write to `amq.default`; otherwise the consumer holds all
 * retries, and warns. A counted return to the queue is a `basic.reject` with requeue, and an uncounted return a `basic.nack`:
 * RabbitMQ 4.3 distinguishes them, and earlier versions count both. The broker takes back a delivery that the consumer holds for longer than the broker's `consumer_timeout` (30
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
    'id',
    'key',
    'singleActiveConsumer',
    'connectTimeoutMs',
  )
  const queue = check.text('queue', { max: 255 })
  if (Buffer.byteLength(queue) > 255) throw check.wrong('queue', 'text of at most 255 bytes in UTF-8')
  const declared = options.declare === undefined ? undefined : new QueueDeclaration(options.declare)
  const settings: ConnectSettings = {
    address: brokerAddress(check),
    tls: tlsOption(check, options.tls),
    connectTimeoutMs: check.milliseconds('connectTimeoutMs', { min: 10, max: 3_600_000, default: 10_000 }),
  }
  const isQuorum =
    options.countsDeliveries === undefined ? declared?.isQuorum : check.flag('countsDeliveries', false)
  const functions: DeliveryFunctions = { id: check.callback('id'), key: check.callback('key') }
  const reader = new DeliveryReader(
    functions,
    new DeliveryCounts({ queue, broker: settings.address.name, isQuorum }),
  )
  return new RabbitmqSource<P>(settings, queue, declared, reader, {
    delays: false,
    countsDeliveries: isQuorum ?? 'per-delivery',
    keepsRejected: check.flag('keepsRejected', declared?.deadLetterExchange !== undefined),
    ordersKeys: false,
    settlesInTransaction: false,
    leaseMs: undefined,
    isExclusive: check.flag('singleActiveConsumer', declared?.hasSingleActiveConsumer === true),
  })
}

class RabbitmqSource<P> implements Source<P> {
  readonly system = 'rabbitmq'
  readonly destination: string
  readonly name: string
  readonly traits: SourceTraits
  readonly #settings: ConnectSettings
  readonly #queue: string
  readonly #declared: QueueDeclaration | undefined
  /** Keeps what the queue has shown about its counts, also when the source is opened again. */
  readonly #reader: DeliveryReader
  readonly #warned = new Set<string>()

  constructor(
    settings: ConnectSettings,
    queue: string,
    declared: QueueDeclaration | undefined,
    reader: DeliveryReader,
    traits: SourceTraits,
  ) {
    this.#settings = settings
    this.#queue = queue
    this.destination = queue
    this.#declared = declared
    this.#reader = reader
    this.traits = traits
    this.name = `rabbitmq ${oneLine(queue)}`
  }

  async open(how: Parameters<Source<P>['open']>[0]): Promise<OpenSource<P>> {
    const lifetime = new AbortController()
    const { address } = this.#settings
    const name = `queue '${oneLine(this.#queue)}' of RabbitMQ at ${address.name}`
    const isShared = this.#declared !== undefined && !this.#declared.hasSingleActiveConsumer
    const connectionName = `txbox consumer of ${this.#queue}`
    const socket = { clientProperties: { connection_name: connectionName } }
    const publishing = new SourcePublishing(this.#settings, `${connectionName} (publishing)`)
    return connectBroker(this.#settings, lifetime, socket, async (model) => {
      // A failure while the queue is prepared rejects the calls below, too.
      model.on('error', () => undefined)
      this.#reader.counts.hasAcquiredCounts = isFrom43(model)
      const channel = await model.createChannel()
      channel.on('error', () => undefined)
      try {
        return await this.#subscribe(model, channel, {
          ...how,
          reader: this.#reader,
          delaysFailed: this.#declared?.delaysFailed === true,
          retryQueues: new RetryQueues({
            ...{ queue: this.#queue, user: this.#settings.address.user, model, publishing },
            warn: (text) => this.#warnOnce(text, how.warned),
          }),
          isShared,
          nackKeepsPlace: this.#declared?.hasDeliveryLimit === true || isFrom43(model),
          name,
          lifetime,
          publishing,
          deadLetters: this.#deadLetters(publishing),
        })
      } catch (error) {
        throw replyCodeOf(error) === undefined ? error : refusedSubscription(address.name, name, error)
      }
    })
  }

  #deadLetters(publishing: SourcePublishing): DeadLetterExchange | undefined {
    const exchange = this.#declared?.deadLetterExchange
    if (exchange === undefined) return undefined
    return new DeadLetterExchange(publishing, exchange, {
      source: this.name,
      user: this.#settings.address.user,
    })
  }

  async #subscribe(model: ChannelModel, channel: Channel, how: ConsumingSettings<P>): Promise<OpenSource<P>> {
    await this.#declared?.declare(model, channel, this.#queue)
    const open = new ConsumingChannel<P>(model, channel, how)
    await open.consume(this.#queue)
    return open
  }

  #warnOnce(text: string, warn: ((text: string) => void) | undefined): void {
    if (this.#warned.has(text)) return
    this.#warned.add(text)
    warn?.(text)
  }
}
