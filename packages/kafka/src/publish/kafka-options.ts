import { isIP } from 'node:net'
import type { OutboxMessage } from '@txbox/core'
import { OptionChecker, tlsOption, type TlsOptions } from '@txbox/core/internal'
import type { ConnectionSettings } from '../connection/connection-settings.ts'

const MOST_BROKERS = 100

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000

/** With its fields, such a message still fits into the largest request that a broker takes by default, 100 MiB. */
const LARGEST_MESSAGE_BYTES = 100_000_000

/** A name or an address, in brackets if it has colons, and a port. */
const BROKER = /^(?:\[([\da-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i

const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
const MECHANISMS = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'] as const

/** Certificates, with the meanings and defaults of Node's `tls.connect`. */
export type KafkaTlsOptions = TlsOptions

/** How the publisher logs in. */
export type KafkaSaslOptions =
  | {
      /** `'PLAIN'` shows the password to everyone on the network, unless `tls` is set. */
      mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
      username: string
      password: string
    }
  | {
      mechanism: 'OAUTHBEARER'
      /** Called for each connection, and when a login expires. */
      token: () => Promise<string>
    }

export interface KafkaPublisherOptions {
  /** The brokers that are asked for the others, each as `host:port`; an IPv6 address stands in brackets. 1 to 100. */
  brokers: readonly string[]
  /** The name of this client in Kafka's logs and quotas, 1 to 255 characters without white space. @default 'txbox' */
  clientId?: string | undefined
  /** `true` connects by TLS, and trusts the authorities that Node trusts. @default false */
  tls?: boolean | KafkaTlsOptions | undefined
  /** Without it, the publisher does not log in. */
  sasl?: KafkaSaslOptions | undefined
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
  /** How long connecting may take, with login, in milliseconds. 10 ms to an hour. @default 10_000 */
  connectTimeoutMs?: number | undefined
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
    ...['brokers', 'clientId', 'tls', 'sasl', 'topic', 'compression', 'idempotent'],
    ...['confirmTimeoutMs', 'connectTimeoutMs', 'maxMessageBytes'],
  )
  const timeout = { min: 10, max: LONGEST_TIMEOUT_MS }
  const brokers = check.list('brokers', isBroker, `1 to ${MOST_BROKERS} addresses, each as 'host:port'`)
  if (brokers.length === 0 || brokers.length > MOST_BROKERS) {
    throw check.wrong('brokers', `1 to ${MOST_BROKERS} addresses, each as 'host:port'`)
  }
  const clientId = check.text('clientId', { max: 255, default: 'txbox' })
  if (/\s/.test(clientId)) throw check.wrong('clientId', 'text without white space')
  return {
    connection: {
      brokers,
      clientId,
      ...tlsSettings(check, options.tls, brokers),
      ...saslSettings(check, options.sasl),
      compression: check.oneOf('compression', COMPRESSIONS, 'none'),
      idempotent: check.flag('idempotent', true),
      confirmTimeoutMs: check.milliseconds('confirmTimeoutMs', { ...timeout, default: 30_000 }),
      connectTimeoutMs: check.milliseconds('connectTimeoutMs', { ...timeout, default: 10_000 }),
    },
    topicOf: check.callback<(message: OutboxMessage) => unknown>('topic') ?? (({ topic }) => topic),
    maxMessageBytes: check.integer('maxMessageBytes', {
      min: 1,
      max: LARGEST_MESSAGE_BYTES,
      default: 1_000_000,
    }),
  }
}

function isBroker(value: unknown): value is string {
  const port = typeof value === 'string' ? Number(BROKER.exec(value)?.[3]) : NaN
  return port >= 1 && port <= 65_535
}

function tlsSettings(
  check: OptionChecker,
  tls: boolean | KafkaTlsOptions | undefined,
  brokers: readonly string[],
): Pick<ConnectionSettings, 'tls' | 'tlsServerName'> {
  if (tls === undefined || tls === false) return {}
  const { servername, ...certificates } = tlsOption(check, tls === true ? undefined : tls)
  // Node tells the name of a host by itself to no server, and TLS allows no address as a name.
  const areNames = brokers.every((broker) => isIP(BROKER.exec(broker)?.[1] ?? BROKER.exec(broker)![2]!) === 0)
  return { tls: certificates, tlsServerName: servername ?? areNames }
}

function saslSettings(
  check: OptionChecker,
  sasl: KafkaSaslOptions | undefined,
): Pick<ConnectionSettings, 'sasl'> {
  if (sasl === undefined) return {}
  const login = new OptionChecker(`${check.where}: the option 'sasl'`, sasl)
  const mechanism = login.oneOf('mechanism', MECHANISMS, '' as 'PLAIN')
  if (mechanism === 'OAUTHBEARER') {
    const token = login.known('mechanism', 'token').callback<() => Promise<string>>('token')
    if (token === undefined) throw login.wrong('token', 'a function')
    return { sasl: { mechanism, token } }
  }
  login.known('mechanism', 'username', 'password')
  const limit = { max: 10_000 }
  return {
    sasl: { mechanism, username: login.text('username', limit), password: login.text('password', limit) },
  }
}
