import { OptionChecker } from '@txbox/core/internal'
import {
  CONNECTION_OPTIONS,
  LONGEST_TIMEOUT_MS,
  connectionSettings,
  type ConnectionSettings,
  type NatsConnectionOptions,
} from '../connection/connection-options.ts'
import { STREAM_NAME } from '../connection/names.ts'
import type { DeliveryFunctions, NatsSourceMessage } from './delivery-reader.ts'

/** JetStream's own default. */
const ACK_WAIT_MS = 30_000
const MOST_FILTERS = 1000
const NAME = 'text without spaces, dots, wildcards and slashes'

/** How a consumer is created that does not exist. */
export interface NatsConsumerDeclaration {
  /**
   * The subjects to receive, with the wildcards `*` and `>`. Several need NATS 2.10.
   *
   * @default all of the stream
   */
  filterSubjects?: readonly string[] | undefined
  /** How long a delivery may be unsettled, in milliseconds, until it is extended. 500 ms to an hour. @default 30_000 */
  ackWaitMs?: number | undefined
  /**
   * How many messages of the consumer may be unsettled, over all processes, including those that wait for a retry. 1 to 1,000,000.
   *
   * @default 1000
   */
  maxAckPending?: number | undefined
  /** Where a new consumer begins: with what the stream holds, or with what is published from now on. @default 'earliest' */
  from?: 'earliest' | 'latest' | undefined
}

export interface NatsSourceOptions extends NatsConnectionOptions {
  /** The stream, which must exist. */
  stream: string
  /** The durable pull consumer, 1 to 255 characters. */
  consumer: string
  /** Creates the consumer if it does not exist. A consumer that exists must have these settings. @default the consumer must exist */
  declare?: NatsConsumerDeclaration | undefined
  /**
   * Returns the id of a message, for producers that set neither `txbox-id` nor `Nats-Msg-Id` and send no CloudEvents. `undefined`: the
   * message has no id. Then the key of the message stands in, as the option `key` of the inbox (without an inbox, of the consumer) extracts
   * it; if there is no such key, the message becomes a dead letter. An error that the function throws makes the message a dead letter.
   *
   * @default the id of a CloudEvent in binary mode, or else the header `txbox-id`, or else `Nats-Msg-Id`
   */
  id?: ((message: NatsSourceMessage) => string | undefined) | undefined
  /**
   * Returns the ordering key of a message. `undefined`: the message has no order. An error that the function throws makes the message a
   * dead letter.
   *
   * @default the header `txbox-key`, as `natsPublisher` writes it, or else the `partitionkey` of a CloudEvent in binary mode
   */
  key?: ((message: NatsSourceMessage) => string | undefined) | undefined
}

export interface SourceSettings {
  readonly connection: ConnectionSettings
  readonly stream: string
  readonly consumer: string
  /** The settings that the consumer must have, as far as they were given. */
  readonly declared: NatsConsumerDeclaration | undefined
  readonly ackWaitMs: number
  readonly functions: DeliveryFunctions
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function natsSourceOptions(options: NatsSourceOptions): SourceSettings {
  const check = new OptionChecker('natsSource', options).known(
    ...CONNECTION_OPTIONS,
    ...['stream', 'consumer', 'declare', 'id', 'key'],
  )
  const declared = options.declare === undefined ? undefined : declaration(options.declare)
  return {
    connection: connectionSettings(check, options),
    stream: nameOption(check, 'stream'),
    consumer: nameOption(check, 'consumer'),
    declared,
    ackWaitMs: declared?.ackWaitMs ?? ACK_WAIT_MS,
    functions: { id: check.callback('id'), key: check.callback('key') },
  }
}

function nameOption(check: OptionChecker, name: string): string {
  const text = check.text(name, { max: 255 })
  if (!STREAM_NAME.test(text)) throw check.wrong(name, NAME)
  return text
}

function declaration(options: NatsConsumerDeclaration): NatsConsumerDeclaration {
  const check = new OptionChecker("natsSource: the option 'declare'", options).known(
    ...['filterSubjects', 'ackWaitMs', 'maxAckPending', 'from'],
  )
  const expected = `a list of at most ${MOST_FILTERS} subjects`
  const filterSubjects = check.list('filterSubjects', isSubject, expected)
  if (filterSubjects.length > MOST_FILTERS) throw check.wrong('filterSubjects', expected)
  check.integer('ackWaitMs', { min: 500, max: LONGEST_TIMEOUT_MS, default: ACK_WAIT_MS })
  check.integer('maxAckPending', { min: 1, max: 1_000_000, default: 1000 })
  check.oneOf('from', ['earliest', 'latest'], 'earliest')
  return { ...options }
}

function isSubject(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= 2000 && !/[\s\p{Cc}]/u.test(value)
}
