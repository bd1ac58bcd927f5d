import type { ChannelModel } from 'amqplib'

/** @returns the version that the broker reports. Another broker that speaks the same protocol may report none. */
export function brokerVersion({ connection }: ChannelModel): string {
  const version: unknown = connection.serverProperties['version']
  return String(version)
}

/**
 * Returns whether the broker is RabbitMQ 4.3 or later. A quorum queue then puts a message that is returned by a nack back to its
 * place, and does not count the delivery; before, a queue without a delivery limit puts the message behind all others. And a
 * quorum queue can delay retries; before, it ignores the arguments for that. And it counts how often it has handed out a message.
 */
export function isFrom43(model: ChannelModel): boolean {
  const [major = 0, minor = 0] = brokerVersion(model).split('.').map(Number)
  return major > 4 || (major === 4 && minor >= 3)
}
