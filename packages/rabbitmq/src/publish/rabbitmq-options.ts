import { InvalidOptionError } from '@txbox/core'
import { OptionChecker, tlsOption } from '@txbox/core/internal'
import { brokerAddress } from '../connection/broker-address.ts'
import type { RabbitmqTlsOptions } from '../connection/tls-settings.ts'
import type { ConnectionSettings } from './broker-connection.ts'

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000

/** RabbitMQ's own upper bound of max_message_size: 512 MiB. */
const LARGEST_MESSAGE_BYTES = 536_870_912

export interface RabbitmqPublisherOptions {
  /**
   * `amqp://user:password@host:5672/vhost`, or `amqps://…` for TLS. Settings of the amqplib client belong in the
   * query, such as `?heartbeat=10` (seconds). Without a heartbeat there, it is 20 s.
   */
  url: string
  /** Certificates, if the broker's is from a private authority, or if the broker asks for one. For `amqps://` only. */
  tls?: RabbitmqTlsOptions | undefined
  /**
   * The exchange that messages are published to; a message's topic is its routing key. `''` is the default exchange, for
   * which the topic is the name of a queue. At most 255 bytes.
   *
   * @default 'txbox'
   */
  exchange?: string | undefined
  /** The type of the exchange. Has no effect if the exchange is not asserted. @default 'topic' */
  exchangeType?: 'topic' | 'direct' | 'fanout' | 'headers' | undefined
  /**
   * Creates the exchange as durable if it does not exist when a connection is opened; an exchange of another type is an
   * error. `false` uses the exchange as it is, and needs no permission to configure.
   *
   * @default true
   */
  assertExchange?: boolean | undefined
  /**
   * How long to wait for the broker while no message can be sent and none is confirmed, in milliseconds. 10 ms to an
   * hour.
   *
   * @default 30_000
   */
  confirmTimeoutMs?: number | undefined
  /**
   * How long connecting may take, including the handshake and the exchange, in ms. 10 ms to an hour.
   *
   * @default 10_000
   */
  connectTimeoutMs?: number | undefined
  /**
   * The maximum payload, 1 byte to 512 MiB: a message with a larger payload is rejected permanently before it is sent. Keep
   * this at or below the broker's `max_message_size`.
   *
   * @default 16 MiB, the default of RabbitMQ 4
   */
  maxMessageBytes?: number | undefined
}

/** The checked options of a publisher. */
export interface RabbitmqPublisherSettings {
  readonly connection: ConnectionSettings
  readonly confirmTimeoutMs: number
  readonly maxMessageBytes: number
}

/** @throws {InvalidOptionError} for a wrong option. */
export function rabbitmqPublisherOptions(options: RabbitmqPublisherOptions): RabbitmqPublisherSettings {
  const check = new OptionChecker('rabbitmqPublisher', options).known(
    'url',
    'tls',
    'exchange',
    'exchangeType',
    'assertExchange',
    'confirmTimeoutMs',
    'connectTimeoutMs',
    'maxMessageBytes',
  )
  const address = brokerAddress(check)
  const exchange = exchangeOf(check, options)
  const exchangeType = check.oneOf('exchangeType', ['topic', 'direct', 'fanout', 'headers'], 'topic')
  const asserted = check.flag('assertExchange', true) && exchange !== ''
  const timeout = { min: 10, max: LONGEST_TIMEOUT_MS }
  return {
    connection: {
      address,
      tls: tlsOption(check, options.tls),
      exchange,
      assertedType: asserted ? exchangeType : undefined,
      connectTimeoutMs: check.milliseconds('connectTimeoutMs', { ...timeout, default: 10_000 }),
    },
    confirmTimeoutMs: check.milliseconds('confirmTimeoutMs', { ...timeout, default: 30_000 }),
    maxMessageBytes: check.integer('maxMessageBytes', {
      min: 1,
      max: LARGEST_MESSAGE_BYTES,
      default: 16_777_216,
    }),
  }
}

function exchangeOf(check: OptionChecker, options: RabbitmqPublisherOptions): string {
  if (options.exchange === '') return ''
  const exchange = check.text('exchange', { max: 255, default: 'txbox' })
  if (Buffer.byteLength(exchange) > 255) {
    throw new InvalidOptionError(
      `${check.where}: the option 'exchange' must have at most 255 bytes in UTF-8.`,
    )
  }
  return exchange
}
