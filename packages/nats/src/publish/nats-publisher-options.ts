import type { OutboxMessage } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import {
  CONNECTION_OPTIONS,
  LONGEST_TIMEOUT_MS,
  connectionSettings,
  type ConnectionSettings,
  type NatsConnectionOptions,
} from '../connection/connection-options.ts'
import { STREAM_NAME } from '../connection/names.ts'

/** A server can be set to take messages up to this size, 64 MiB. */
const LARGEST_MESSAGE_BYTES = 67_108_864

export interface NatsPublisherOptions extends NatsConnectionOptions {
  /** Chooses the subject. @default the message's topic */
  subject?: ((message: OutboxMessage) => string) | undefined
  /** Only this stream may take the messages. @default the stream that takes the subject */
  stream?: string | undefined
  /** The number of messages that may wait for their confirmations at a time, 1 to 10,000. @default 1000 */
  maxInFlight?: number | undefined
  /**
   * How long to wait for a confirmation, in milliseconds. Starts again with every confirmation of the same subject. 10 ms to an hour.
   *
   * @default 30_000
   */
  confirmTimeoutMs?: number | undefined
  /**
   * The maximum size of a message, payload and headers together, 1 to 67,108,864 bytes: a larger message is rejected permanently before it
   * is sent. The server's `max_payload` holds in any case.
   *
   * @default the server's max_payload
   */
  maxMessageBytes?: number | undefined
}

export interface PublisherSettings {
  readonly connection: ConnectionSettings
  readonly subjectOf: (message: OutboxMessage) => unknown
  readonly stream: string | undefined
  readonly maxInFlight: number
  readonly confirmTimeoutMs: number
  readonly maxMessageBytes: number
}

/** @throws {InvalidOptionError} for a wrong option. The text shows neither an address nor a password. */
export function natsPublisherOptions(options: NatsPublisherOptions): PublisherSettings {
  const check = new OptionChecker('natsPublisher', options).known(
    ...CONNECTION_OPTIONS,
    ...['subject', 'stream', 'maxInFlight', 'confirmTimeoutMs', 'maxMessageBytes'],
  )
  const stream = options.stream === undefined ? undefined : check.text('stream', { max: 255 })
  if (stream !== undefined && !STREAM_NAME.test(stream)) {
    throw check.wrong('stream', 'the name of a stream, without spaces, dots, wildcards and slashes')
  }
  return {
    connection: connectionSettings(check, options),
    subjectOf: check.callback<(message: OutboxMessage) => unknown>('subject') ?? (({ topic }) => topic),
    stream,
    maxInFlight: check.integer('maxInFlight', { min: 1, max: 10_000, default: 1000 }),
    confirmTimeoutMs: check.milliseconds('confirmTimeoutMs', {
      min: 10,
      max: LONGEST_TIMEOUT_MS,
      default: 30_000,
    }),
    maxMessageBytes: check.integer('maxMessageBytes', {
      min: 1,
      max: LARGEST_MESSAGE_BYTES,
      default: LARGEST_MESSAGE_BYTES,
    }),
  }
}
