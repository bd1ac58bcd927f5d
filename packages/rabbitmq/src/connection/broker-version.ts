import type { ChannelModel } from 'amqplib'

/**
 * Returns whether the broker is RabbitMQ 4.3 or later. A quorum queue then puts a message that is returned by a nack back to its
 * place, does not count the delivery, and counts how often it has handed out a message. Before, a queue without a delivery limit
 * puts the message behind all others.
 */
export function isFrom43({ connection }: ChannelModel): boolean {
  // Another broker that speaks the same protocol may send none.
  const version: unknown = connection.serverProperties['version']
  const [major = 0, minor = 0] = String(version).split('.').map(Number)
  return major > 4 || (major === 4 && minor >= 3)
}
