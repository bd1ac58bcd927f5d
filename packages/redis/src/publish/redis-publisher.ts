import {
  BrokerUnavailableError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { OrderedBatch, SharedConnection, unlessAborted } from '@txbox/core/internal'
import { checkRedis, connectRedis } from '../connection/connect-redis.ts'
import type { RedisConnection } from '../connection/redis-connection.ts'
import { PublishCall } from './publish-call.ts'
import { redisPublisherOptions, type PublisherSettings, type RedisPublisherOptions } from './redis-options.ts'

/**
 * Publishes to streams of Redis, or of Valkey. A message is accepted when Redis has answered with the id of its entry. Whether the entry
 * survives a crash is a setting of the server: with `appendfsync always` it is on disk then; with the usual `everysec` a second may be
 * lost, and with neither AOF nor snapshots everything. Replication is asynchronous, unless `waitReplicas` is set.
 *
 * The entry has the fields `id`, `type`, `key`, `content-type`, `content-encoding`, `correlation-id`, `time` (RFC 3339 with
 * milliseconds), `headers` (a JSON object) and `payload` (byte for byte). Fields that the message does not have are left out.
 *
 * - A stream that does not exist is created.
 * - A message that an entry cannot carry unchanged is rejected permanently, before it is sent: a payload above `maxMessageBytes`, a lone
 *   surrogate in any text.
 * - A key that holds something other than a stream, or a stream to which the user may not write, rejects the message, which can be tried
 *   again. If this publisher has published to the stream before, one of the last 10,000, a key that holds no stream any more counts no
 *   attempt.
 * - All other failures throw: no connection, a refused login, no answer, no memory, a replica, or `signal` aborted. It is then unknown
 *   which messages were published. The connection is dropped, and the next call connects again.
 *
 * The publisher connects at its first call. Calls may overlap.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function redisPublisher(options: RedisPublisherOptions): Publisher {
  return new RedisPublisher(redisPublisherOptions(options))
}

class RedisPublisher implements Publisher {
  readonly ordering = 'per-key'
  readonly system = 'redis'
  readonly #connection: SharedConnection<RedisConnection>
  readonly #settings: PublisherSettings

  constructor(settings: PublisherSettings) {
    this.#settings = settings
    this.#connection = new SharedConnection(
      (lifetime) => connectRedis(settings.connection, lifetime, 'Publishing to'),
      () =>
        new BrokerUnavailableError(
          `The publisher for ${settings.connection.name} is closed. It is unknown whether messages in flight were published. Create a new ` +
            'publisher.',
        ),
    )
  }

  async publish(
    messages: readonly OutboxMessage[],
    options: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    const { signal } = options
    signal.throwIfAborted()
    if (messages.length === 0) return []
    const batch = new OrderedBatch(messages)
    const connection = await this.#connection.get(signal)
    const call = new PublishCall(connection, batch, this.#settings.call, options)
    await unlessAborted(call.run(), signal)
    return batch.results as PublishResult[]
  }

  async check({ signal }: { signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted()
    const connection = await this.#connection.get(signal)
    await unlessAborted(checkRedis(connection, this.#settings.connection), signal)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }
}
