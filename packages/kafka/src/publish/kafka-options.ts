import type { OutboxMessage } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import {
  CONNECTION_OPTIONS,
  TIMEOUT,
  clientSettings,
  type KafkaConnectionOptions,
} from '../connection/connection-options.ts'
import type { ConnectionSettings } from '../connection/connection-settings.ts'

/** With its fields, such a message still fits into the largest request that a broker takes by default, 100 MiB. */
const LARGEST_MESSAGE_BYTES = 100_000_000

const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const

export interface KafkaPublisherOptions extends KafkaConnectionOptions {
  /** Chooses the topic of Kafka. @default the message's topic */
  topic?: ((message: OutboxMessage) => string) | undefined
  /** How batches are compressed. @default 'none' */
  compression?: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd' | undefined
  /**
   * Publishes as an idempotent producer. Before Kafka 3.0, the user needs the right IDEMPOTENT_WRITE for that.
   *
   * @default true
   */
  idempotent?: boolean | undefined
  /**
   * How long to wait for an answer of Kafka, in milliseconds. Starts again with every answer. 10 ms to an hour.
   *
   * @default 30_000
   */
  confirmTimeoutMs?: number | undefined
  /**
   * The maximum payload, 1 to 100,000,000 bytes: a message with a larger payload is rejected permanently before it is sent. Keep this
   * below the `max.message.bytes` of the topics, which counts key and headers, too.
   *
   * @default 1_000_000
   */
  maxMessageBytes?: number | undefined
}

export interface PublisherSettings {
  readonly connection: ConnectionSettings
  readonly topicOf: (message: OutboxMessage) => unknown
  readonly maxMessageBytes: number
}

/** @throws {InvalidOptionError} for a wrong option. The text shows neither an address nor a password. */
export function kafkaOptions(options: KafkaPublisherOptions): PublisherSettings {
  const check = new OptionChecker('kafkaPublisher', options).known(
    ...CONNECTION_OPTIONS,
    ...['topic', 'compression', 'idempotent', 'confirmTimeoutMs', 'maxMessageBytes'],
  )
  return {
    connection: {
      ...clientSettings(check, options),
      compression: check.oneOf('compression', COMPRESSIONS, 'none'),
      idempotent: check.flag('idempotent', true),
      confirmTimeoutMs: check.milliseconds('confirmTimeoutMs', { ...TIMEOUT, default: 30_000 }),
    },
    topicOf: check.callback<(message: OutboxMessage) => unknown>('topic') ?? (({ topic }) => topic),
    maxMessageBytes: check.integer('maxMessageBytes', {
      min: 1,
      max: LARGEST_MESSAGE_BYTES,
      default: 1_000_000,
    }),
  }
}
