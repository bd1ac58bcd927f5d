import type { Publisher } from '@txbox/core'
import { connectedPublisher, onlyServer } from '@txbox/core/internal'
import { addressOf } from '../connection/client-settings.ts'
import { KafkaConnection } from '../connection/kafka-connection.ts'
import { kafkaOptions, type KafkaPublisherOptions } from './kafka-options.ts'
import { KnownTopics } from './known-topics.ts'
import { Partitions } from './partitions.ts'
import { PublishCall } from './publish-call.ts'

/**
 * Publishes to topics of Kafka. A message is accepted when the leader of its partition and all replicas in sync have stored the
 * message (`acks=all`). How many replicas that are at least is a setting of the topic, `min.insync.replicas`.
 *
 * The record: key = the message's key, in UTF-8; value = the payload, byte for byte; timestamp = when the message was created; the
 * message's headers, and behind them id, type, correlation id, content type, content encoding and time of creation as the headers
 * `txbox-id`, `txbox-type`, `txbox-correlation-id`, `content-type`, `content-encoding` and `txbox-time` (RFC 3339 with milliseconds).
 * If the message has a header of one of these names, the record has both, and the last one is the field.
 *
 * - The partition follows from the key as with Kafka's Java client. Messages without a key take the partitions in turn.
 * - A message that Kafka can never take unchanged is rejected permanently, before it is sent: a payload above `maxMessageBytes`, a topic
 *   that is no name of Kafka, a lone surrogate in any text. So is a message that Kafka refuses for itself, such as a record above the
 *   topic's `max.message.bytes`; others of its batch are not disturbed.
 * - A topic that does not exist, or to which the user may not publish, rejects the message, which can be tried again. Topics are never
 *   created. If this publisher has published to the topic before, one of the last 10,000, a missing topic counts no attempt.
 * - A partition without a leader or without enough replicas rejects the message without counting an attempt.
 * - All other failures throw: no connection, a refused login, no answer, or `signal` aborted. It is then unknown which messages were
 *   published. The connections are dropped, and the next call connects again.
 *
 * The publisher connects at its first call. Calls may overlap: what they send at the same time shares requests, one to each broker at
 * a time.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function kafkaPublisher(options: KafkaPublisherOptions): Publisher {
  const { connection: settings, ...rest } = kafkaOptions(options)
  const call = { ...rest, topics: new KnownTopics(), partitions: new Partitions() }
  let turn = 0
  return connectedPublisher({
    system: 'kafka',
    server: onlyServer(settings.brokers),
    cloudEvents: { prefix: 'ce_', contentTypeAsAttribute: false, percentEncode: false },
    name: `Kafka at ${addressOf(settings)}`,
    open: (lifetime) => KafkaConnection.open(settings, lifetime, turn++),
    send: (connection, batch, { signal, answered }) =>
      new PublishCall(connection, batch, call, answered).run(signal),
    check: (connection) => connection.check(),
  })
}
