import { randomUUID } from 'node:crypto'
import { AckPolicy, jetstream, jetstreamManager, type JsMsg } from '@nats-io/jetstream'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import { natsPublisher, natsSource } from '@txbox/nats'
import type { HandClient } from '../postgres/relay-by-hand.ts'
import { PREFETCH, fieldsOf, type BenchBroker } from './bench-broker.ts'
import { HandlersByHand, readMessage } from './work-by-hand.ts'

const NATS_URL = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
const CONSUMER = 'bench'

/** A stream of JetStream in a file. */
export const natsBroker: BenchBroker = {
  name: 'NATS JetStream',
  messages: 20_000,
  variable: 'NATS_URL',
  async open() {
    const connection = await connect({ servers: NATS_URL }).catch(() => undefined)
    if (connection === undefined) return undefined
    const manager = await jetstreamManager(connection)
    const stream = `txbox-bench-${randomUUID()}`
    return {
      async empty() {
        // A stream that was only purged would drop the messages of the next round as resends.
        await manager.streams.delete(stream).catch(() => undefined)
        await manager.streams.add({ name: stream, subjects: [stream] })
        await manager.consumers.add(stream, { durable_name: CONSUMER, ack_policy: AckPolicy.Explicit })
      },
      count: async () => (await manager.streams.info(stream)).state.messages,
      publisher: () => natsPublisher({ servers: NATS_URL, subject: () => stream }),
      client: () => connected(stream),
      source: () => natsSource({ servers: NATS_URL, stream, consumer: CONSUMER }),
      receiveBare: (messages) => receive(connection, stream, messages, (message) => message.ackAck()),
      receiveLikeSource(messages) {
        const handlers = new HandlersByHand()
        return receive(connection, stream, messages, async (message) => {
          const { headers: given = headers(), data } = message
          const payload = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
          const fields = given.keys().map((name) => [name, given.last(name)] as const)
          await handlers.handle(readMessage(fields, payload))
          return await message.ackAck()
        })
      },
      async dispose() {
        await manager.streams.delete(stream)
        await connection.close()
      },
    }
  },
}

async function connected(stream: string): Promise<HandClient> {
  const connection = await connect({ servers: NATS_URL })
  const client = jetstream(connection)
  return {
    async publish(rows) {
      await Promise.all(
        rows.map((row) => {
          const fields = headers()
          for (const [name, value] of Object.entries(fieldsOf(row))) fields.append(name, value)
          fields.append('Nats-Msg-Id', row.id)
          return client.publish(stream, row.payload, { headers: fields })
        }),
      )
    },
    close: () => connection.close(),
  }
}

/** @param handle acknowledges the message. */
async function receive(
  connection: NatsConnection,
  stream: string,
  messages: number,
  handle: (message: JsMsg) => Promise<boolean>,
): Promise<void> {
  const consumer = await jetstream(connection).consumers.get(stream, CONSUMER)
  const acknowledged: Promise<boolean>[] = []
  for await (const message of await consumer.consume({ max_messages: PREFETCH })) {
    acknowledged.push(handle(message))
    if (acknowledged.length === messages) break
  }
  await Promise.all(acknowledged)
}
