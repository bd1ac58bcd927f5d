import { InvalidOptionError, type OutboxMessage } from '@txbox/core'
import { OptionChecker, RememberedNames } from '@txbox/core/internal'
import type { RedisStreamsClient } from '../connection/command-port.ts'
import {
  connectSettings,
  refuseKeptCommands,
  type ConnectSettings,
  type RedisTlsOptions,
} from '../connection/connect-options.ts'
import type { CallSettings } from './publish-call.ts'

/** Redis takes values of up to 512 MB, `proto-max-bulk-len`, and breaks the connection of a client that sends a larger one. */
const LARGEST_MESSAGE_BYTES = 500_000_000
const LARGEST_STREAM = 1_000_000_000_000
const MOST_REPLICAS = 100

export interface RedisPublisherOptions {
  /**
   * `redis://user:password@host:6379/0`, or `rediss://…` for TLS. The publisher then has a connection of its own, by node-redis
   * (`redis` or `@redis/client`), which must be installed.
   */
  url?: string | undefined
  /**
   * Instead of `url`: a connected client of node-redis, with `disableOfflineQueue: true`, or of ioredis, with `enableOfflineQueue: false`
   * and `autoResendUnfulfilledCommands: false`; or a cluster client. The publisher does not close the client.
   */
  client?: RedisStreamsClient | undefined
  /** Certificates, if the server's is from a private authority, or if the server asks for one. For `rediss://` only. */
  tls?: RedisTlsOptions | undefined
  /** Chooses the stream. @default the message's topic */
  stream?: ((message: OutboxMessage) => string) | undefined
  /**
   * Trims a stream to about this number of entries when a message is added, 1 to 10^12. Trimming deletes the oldest entries, also those
   * that nobody has read.
   *
   * @default never
   */
  maxLength?: number | undefined
  /**
   * How many replicas must have received a message before it is accepted, 0 to 100, by `WAIT`, which holds up the other commands of a
   * client that is passed. If fewer have received the message in time, the call throws. Not with a cluster client.
   *
   * @default 0
   */
  waitReplicas?: number | undefined
  /**
   * How long to wait for an answer of Redis, in milliseconds. Starts again with every answer. 10 ms to an hour.
   *
   * @default 30_000
   */
  confirmTimeoutMs?: number | undefined
  /** How long connecting may take, with login, in milliseconds. 10 ms to an hour. Only with `url`. @default 10_000 */
  connectTimeoutMs?: number | undefined
  /**
   * The maximum payload, 1 to 500,000,000 bytes: a message with a larger payload is rejected permanently before it is sent.
   *
   * @default 16_777_216
   */
  maxMessageBytes?: number | undefined
}

export interface PublisherSettings {
  readonly connection: ConnectSettings
  readonly call: CallSettings
}

/** @throws {InvalidOptionError} for a wrong option. The text shows neither an address nor a password. */
export function redisPublisherOptions(options: RedisPublisherOptions): PublisherSettings {
  const check = new OptionChecker('redisPublisher', options).known(
    ...['url', 'client', 'tls', 'stream', 'maxLength', 'waitReplicas'],
    ...['confirmTimeoutMs', 'connectTimeoutMs', 'maxMessageBytes'],
  )
  const connection = connectSettings(check, options, {
    clientName: 'txbox-publisher',
    sharesClient: true,
  })
  const waitReplicas = check.integer('waitReplicas', { min: 0, max: MOST_REPLICAS, default: 0 })
  if (connection.client !== undefined) {
    const { client, kind } = connection
    refuseKeptCommands(check, client, kind)
    if (waitReplicas > 0 && 'nodes' in client) throw noWait(check)
    if (waitReplicas > 0 && kind === 'node-redis cluster') throw noWait(check)
  }
  const bounds = { min: 1, max: LARGEST_STREAM, default: 1 }
  return {
    connection,
    call: {
      streamOf: check.callback<(message: OutboxMessage) => unknown>('stream') ?? (({ topic }) => topic),
      maxLength: options.maxLength === undefined ? undefined : check.integer('maxLength', bounds),
      waitReplicas,
      maxMessageBytes: check.integer('maxMessageBytes', {
        min: 1,
        max: LARGEST_MESSAGE_BYTES,
        default: 16_777_216,
      }),
      confirmTimeoutMs: connection.answerTimeoutMs,
      seen: new RememberedNames(),
    },
  }
}

function noWait({ where }: OptionChecker): InvalidOptionError {
  return new InvalidOptionError(
    `${where}: the option 'waitReplicas' has no meaning with a cluster client, which has no one server to wait for. Set ` +
      'min-replicas-to-write in the cluster.',
  )
}
