import type { Publisher } from '@txbox/core'
import { RememberedNames, connectedPublisher, onlyServer } from '@txbox/core/internal'
import { natsPublisherOptions, type NatsPublisherOptions } from './nats-publisher-options.ts'
import { PublishCall } from './publish-call.ts'
import { PublishConnection } from './publish-connection.ts'

/**
 * Publishes to streams of JetStream. A message is accepted when JetStream has confirmed that a stream has stored the message. With the
 * server's defaults, the message is then in the memory of the operating system, and reaches the disk within 2 minutes.
 *
 * The message: subject = the message's topic; data = the payload, byte for byte; the message's headers, and behind them its id, type, key,
 * correlation id, content type, content encoding and time of creation as the headers `txbox-id`, `txbox-type`, `txbox-key`,
 * `txbox-correlation-id`, `content-type`, `content-encoding` and `txbox-time` (RFC 3339 with milliseconds). If the message has a header
 * of one of these names, the header has two values, and the last one is the field. `Nats-Msg-Id` is the id and the subject.
 *
 * - JetStream drops a message whose id and subject the stream has taken within its `duplicate_window`, 2 minutes by default: such a resend
 *   is accepted and is no second copy.
 * - A message that NATS can never take unchanged is rejected permanently, before it is sent: one above `maxMessageBytes` or the server's
 *   `max_payload`, a subject with a wildcard, an empty part or a space, or one that servers obey (`$JS…`), a header that begins with `Nats-`,
 *   a value with a line break or white space around it, a lone surrogate. So is a message that is too large for its stream.
 * - A subject that no stream takes, or to which the user may not publish, rejects the message, which can be tried again. Streams are never
 *   created. If this publisher has published to the subject before, one of the last 10,000, a missing stream counts no attempt.
 * - A stream that is full or has no leader rejects the message without counting an attempt.
 * - All other failures throw: no connection, a refused login, no answer, or `signal` aborted. It is then unknown which messages were
 *   published. The connection is dropped, and the next call connects again.
 *
 * The publisher connects at its first call. Calls may overlap. One message of each key is in flight.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function natsPublisher(options: NatsPublisherOptions): Publisher {
  const settings = natsPublisherOptions(options)
  const seen = new RememberedNames()
  return connectedPublisher({
    system: 'nats',
    server: onlyServer(settings.connection.servers.addresses),
    cloudEvents: { prefix: 'ce-', contentTypeAsAttribute: true, percentEncode: true },
    name: `NATS at ${settings.connection.servers.name}`,
    open: (lifetime) => PublishConnection.open(settings, lifetime),
    send: (connection, batch, { signal, answered }) =>
      new PublishCall(connection, batch, { settings, seen, answered }).run(signal),
    check: (connection) => connection.check(),
  })
}
