import { randomUUID } from 'node:crypto'
import amqp, { type Channel } from 'amqplib'

export const RABBITMQ_URL = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** A quorum queue for this run only. */
export interface BenchQueue {
  readonly name: string
  readonly channel: Channel
  dispose(): Promise<void>
}

/** `undefined` if there is no RabbitMQ. */
export async function makeQueue(): Promise<BenchQueue | undefined> {
  const connection = await amqp.connect(RABBITMQ_URL).catch(() => undefined)
  if (connection === undefined) return undefined
  connection.on('error', () => undefined)
  const name = `txbox-bench-${randomUUID()}`
  const channel = await connection.createChannel()
  await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': 'quorum' } })
  return {
    name,
    channel,
    async dispose() {
      await channel.deleteQueue(name)
      await connection.close()
    },
  }
}
