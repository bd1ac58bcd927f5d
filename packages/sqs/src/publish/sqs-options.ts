import type { OutboxMessage } from '@txbox/core'
import type { OptionChecker } from '@txbox/core/internal'
import type { AwsClient } from '../connection/aws-client.ts'
import { clientOption, connectionOptions, CONNECTION_OPTIONS } from '../connection/connection-options.ts'
import type { AwsServiceSettings } from '../connection/aws-service.ts'
import type { OutgoingSettings } from './outgoing-message.ts'
import { WIRE_ATTRIBUTES } from './outgoing-message.ts'

/** The maximum size of a message with its attributes in SQS, in bytes. */
export const SQS_BYTES = 1_048_576
/** The maximum size of a message with its attributes in SNS, in bytes. */
export const SNS_BYTES = 262_144

const MOST_ATTRIBUTES = 3
const MOST_CALLS = 256

/** The names that SQS and SNS allow for attributes. */
const ATTRIBUTE = /^(?!aws\.|amazon\.)(?!\.)(?!.*\.\.)(?!.*\.$)[\w.-]{1,256}$/i

const RESERVED: ReadonlySet<string> = new Set(Object.values(WIRE_ATTRIBUTES))

export interface SqsPublisherOptions {
  /** An `SQSClient`, best with `maxAttempts: 1`, as the relay repeats what has failed. @default one that is made when it is needed */
  client?: AwsClient | undefined
  /** An `SNSClient`, for topics of SNS. @default one that is made when it is needed */
  snsClient?: AwsClient | undefined
  /** The region of the clients that the publisher makes, such as `'eu-central-1'`. @default as the AWS SDK finds it */
  region?: string | undefined
  /** The URL of a server that speaks SQS, and SNS, for the clients that the publisher makes. @default that of AWS in the region */
  endpoint?: string | undefined
  /** Returns the queue of a message, by its name or URL, or the ARN of an SNS topic. @default the message's topic */
  destination?: ((message: OutboxMessage) => string) | undefined
  /**
   * The names of headers that become attributes of their own, such as for filter policies of SNS: at most 3, of letters, digits, `_`,
   * `-` and `.`. All other headers share one attribute.
   *
   * @default []
   */
  attributes?: readonly string[] | undefined
  /**
   * The service to which `check` logs in, such as for the readiness of a relay.
   *
   * @default those whose clients you pass; without any, SQS, or SNS if only `@aws-sdk/client-sns` is installed
   */
  check?: 'sqs' | 'sns' | undefined
  /** How many requests are in flight at most, 1 to 256. @default 16 */
  concurrency?: number | undefined
  /** How long to wait for each answer, in milliseconds. 10 ms to an hour. @default 30_000 */
  confirmTimeoutMs?: number | undefined
  /** How long connecting may take for the clients that the publisher makes, in milliseconds. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
  /**
   * The maximum payload, 1 to 1,048,576 bytes: a message with a larger payload is rejected permanently before it is sent. Whatever this
   * is, so is a message that has more than 1,048,576 bytes with its attributes, or 262,144 for a topic of SNS.
   *
   * @default 1_048_576
   */
  maxMessageBytes?: number | undefined
}

export interface PublisherSettings extends OutgoingSettings {
  readonly sqs: AwsServiceSettings
  readonly sns: AwsServiceSettings
  readonly destinationOf: (message: OutboxMessage) => unknown
  /** `undefined`: the clients that there are decide. */
  readonly checked: 'sqs' | 'sns' | undefined
  readonly concurrency: number
}

/** @throws {InvalidOptionError} for a wrong option. */
export function publisherSettings(check: OptionChecker, options: SqsPublisherOptions): PublisherSettings {
  check.known(
    ...['client', 'snsClient', ...CONNECTION_OPTIONS],
    ...['destination', 'attributes', 'check', 'concurrency', 'maxMessageBytes'],
  )
  const connection = { ...connectionOptions(check, options), maxAttempts: 1 }
  const attributes = check.list('attributes', isAttribute, ATTRIBUTES)
  if (attributes.length > MOST_ATTRIBUTES || new Set(attributes).size < attributes.length) {
    throw check.wrong('attributes', ATTRIBUTES)
  }
  return {
    sqs: { ...connection, client: clientOption(check, 'client', options.client) },
    sns: { ...connection, client: clientOption(check, 'snsClient', options.snsClient) },
    destinationOf:
      check.callback<(message: OutboxMessage) => unknown>('destination') ?? (({ topic }) => topic),
    attributes: [...attributes],
    checked:
      options.check === undefined ? undefined : check.oneOf<'sqs' | 'sns'>('check', ['sqs', 'sns'], 'sqs'),
    concurrency: check.integer('concurrency', { min: 1, max: MOST_CALLS, default: 16 }),
    maxMessageBytes: check.integer('maxMessageBytes', { min: 1, max: SQS_BYTES, default: SQS_BYTES }),
  }
}

const ATTRIBUTES = `at most ${MOST_ATTRIBUTES} different names that attributes of SQS may have, and that txbox does not use`

function isAttribute(value: unknown): value is string {
  return (
    typeof value === 'string' && ATTRIBUTE.test(value) && !RESERVED.has(value) && !value.startsWith('txbox-')
  )
}
