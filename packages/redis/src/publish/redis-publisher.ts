import type { Publisher } from '@txbox/core'
import { connectedPublisher, unlessAborted } from '@txbox/core/internal'
import { checkRedis, connectRedis } from '../connection/connect-redis.ts'
import { PublishCall } from './publish-call.ts'
import { redisPublisherOptions, type RedisPublisherOptions } from './redis-options.ts'

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
  const { connection: settings, call } = redisPublisherOptions(options)
  return connectedPublisher({
    system: 'redis',
    server: settings.address && { address: settings.address.host, port: settings.address.port },
    name: settings.name,
    open: (lifetime) => connectRedis(settings, lifetime, 'Publishing to'),
    send: (connection, batch, how) =>
      unlessAborted(new PublishCall(connection, batch, call, how).run(), how.signal),
    check: (connection) => checkRedis(connection, settings),
  })
}
