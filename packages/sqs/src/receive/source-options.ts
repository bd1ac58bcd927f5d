import { hours } from '@txbox/core'
import type { OptionChecker } from '@txbox/core/internal'
import type { AwsClient } from '../connection/aws-client.ts'
import type { AwsServiceSettings } from '../connection/aws-service.ts'
import { clientOption, connectionOptions, CONNECTION_OPTIONS } from '../connection/connection-options.ts'
import { destinationOf, type Destination } from '../publish/destination.ts'
import type { ReadFunctions } from './message-reader.ts'
import type { SqsMessage } from './sqs-message.ts'

/** The longest visibility timeout of SQS. */
export const LONGEST_VISIBILITY_MS = hours(12)

/** The longest wait of a request of SQS. */
const LONGEST_WAIT_MS = 20_000

const QUEUE = 'the name or the URL of a queue of SQS'

export interface SqsSourceOptions {
  /** The name or the URL of the queue. The name of a FIFO queue ends with `.fifo`. */
  queue: string
  /** An `SQSClient`. @default one that is made when it is needed */
  client?: AwsClient | undefined
  /** The region of the client that the source makes, such as `'eu-central-1'`. @default as the AWS SDK finds it */
  region?: string | undefined
  /** The URL of a server that speaks SQS, for the client that the source makes. @default that of AWS in the region */
  endpoint?: string | undefined
  /**
   * How long a received message is out of sight, in milliseconds, rounded up to seconds: 1 s to 12 h. The consumer renews it at a third,
   * until the message is settled. If a consumer crashes, its messages are delivered again after this time.
   *
   * @default 30_000
   */
  visibilityTimeoutMs?: number | undefined
  /** How long a request waits for messages, in milliseconds, rounded up to seconds: 0 to 20 s. @default 20_000 */
  waitMs?: number | undefined
  /**
   * The name or the URL of a queue for rejected messages: the source sends them there as they were received, with the reason, and then
   * deletes them. That of a FIFO queue must be a FIFO queue, too. It may be the queue of a redrive policy, by which SQS itself moves what was
   * received too often.
   *
   * @default rejected messages are not kept, so that the consumer needs `deadLetters`
   */
  deadLetterQueue?: string | undefined
  /**
   * Returns the id of a message, for producers that set no `txbox-id`. `undefined`: the message has no id. Then the key of the message stands
   * in, as the option `key` of the inbox (without an inbox, of the consumer) extracts it; if there is no such key, the message becomes a
   * dead letter. An error that the function throws makes the message a dead letter.
   *
   * @default the attribute `txbox-id`
   */
  id?: ((message: SqsMessage) => string | undefined) | undefined
  /**
   * Returns the ordering key of a message. `undefined`: the message has no order. An error that the function throws makes the message a
   * dead letter.
   *
   * @default the attribute `txbox-key`; without it, the message group in a FIFO queue
   */
  key?: ((message: SqsMessage) => string | undefined) | undefined
  /** How long to wait for each answer, beyond `waitMs`, in milliseconds. 10 ms to an hour. @default 30_000 */
  confirmTimeoutMs?: number | undefined
  /** How long connecting may take for the client that the source makes, in milliseconds. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
}

export interface SourceSettings {
  readonly sqs: AwsServiceSettings
  readonly queue: Destination
  readonly deadLetterQueue: Destination | undefined
  /** Whole seconds. */
  readonly visibilityTimeoutMs: number
  /** Whole seconds. */
  readonly waitMs: number
  readonly functions: ReadFunctions
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function sourceSettings(check: OptionChecker, options: SqsSourceOptions): SourceSettings {
  check.known(
    ...['queue', 'client', ...CONNECTION_OPTIONS, 'visibilityTimeoutMs', 'waitMs', 'deadLetterQueue'],
    ...['id', 'key'],
  )
  const queue = queueOption(check, 'queue')
  const deadLetterQueue =
    options.deadLetterQueue === undefined ? undefined : queueOption(check, 'deadLetterQueue')
  if (deadLetterQueue !== undefined && deadLetterQueue.isFifo !== queue.isFifo) {
    throw check.wrong('deadLetterQueue', 'a FIFO queue exactly if the queue is one')
  }
  const visibility = { min: 1000, max: LONGEST_VISIBILITY_MS, default: 30_000 }
  const wait = { min: 0, max: LONGEST_WAIT_MS, default: LONGEST_WAIT_MS }
  return {
    sqs: {
      ...connectionOptions(check, options),
      client: clientOption(check, 'client', options.client),
      maxAttempts: 3,
    },
    queue,
    deadLetterQueue,
    visibilityTimeoutMs: wholeSeconds(check.milliseconds('visibilityTimeoutMs', visibility)) * 1000,
    waitMs: wholeSeconds(check.milliseconds('waitMs', wait)) * 1000,
    functions: { id: check.callback('id'), key: check.callback('key') },
  }
}

/** SQS counts in seconds. A delay is never shortened. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000)
}

function queueOption(check: OptionChecker, name: string): Destination {
  const queue = destinationOf(check.text(name, { max: 2048 }))
  if (queue?.service !== 'SQS') throw check.wrong(name, QUEUE)
  return queue
}
