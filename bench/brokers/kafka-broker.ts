import { randomUUID } from 'node:crypto'
import {
  Admin,
  Consumer,
  ListOffsetTimestamps,
  ProduceAcks,
  Producer,
  type Message,
} from '@platformatic/kafka'
import { kafkaPublisher, kafkaSource } from '@txbox/kafka'
import type { HandClient } from '../postgres/relay-by-hand.ts'
import { PREFETCH, fieldsOf, type BenchBroker } from './bench-broker.ts'
import { HandlersByHand, readMessage, type ReadMessage } from './work-by-hand.ts'

const BROKERS = (process.env['KAFKA_URL'] ?? '127.0.0.1:9092').replace(/^kafka:\/\//, '').split(',')
const PARTITIONS = 3

/** A topic of Kafka, with @platformatic/kafka. A topic cannot be emptied, so each drain has another one. */
export const kafkaBroker: BenchBroker = {
  name: 'Kafka',
  messages: 50_000,
  variable: 'KAFKA_URL',
  async open() {
    const admin = new Admin({ clientId: 'txbox-bench', bootstrapBrokers: BROKERS, retries: false })
    const isThere = await admin.listTopics().then(
      () => true,
      () => false,
    )
    if (!isThere) {
      await admin.close()
      return undefined
    }
    const topics: string[] = []
    const topic = (): string => topics.at(-1)!
    return {
      async empty() {
        const name = `txbox-bench-${randomUUID()}`
        await admin.createTopics({ topics: [name], partitions: PARTITIONS, replicas: 1 })
        topics.push(name)
        // A topic that was just created has no leaders for a moment.
        const client = await connected(topic)
        await client.close()
      },
      count: () => storedIn(admin, topic()),
      publisher: () => kafkaPublisher({ brokers: BROKERS, topic }),
      client: () => connected(topic),
      clientKeepsOrder: true,
      source: () => kafkaSource({ brokers: BROKERS, topics: [topic()], groupId: randomUUID() }),
      receiveBare: (messages) => receive(topic(), messages),
      receiveLikeSource: (messages) => receiveLikeSource(topic(), messages),
      async dispose() {
        await admin.deleteTopics({ topics })
        await admin.close()
      },
    }
  },
}

async function connected(topic: () => string): Promise<HandClient> {
  const producer = new Producer<Buffer, Buffer, string, string>({
    clientId: 'txbox-bench',
    bootstrapBrokers: BROKERS,
    idempotent: true,
    serializers: {
      key: (key) => key,
      value: (value) => value,
      headerKey: (name) => Buffer.from(name ?? ''),
      headerValue: (value) => Buffer.from(value ?? ''),
    },
  })
  await producer.metadata({ topics: [topic()] })
  return {
    async publish(rows) {
      await producer.send({
        acks: ProduceAcks.ALL,
        messages: rows.map((row) => ({
          topic: topic(),
          ...(row.key === null ? {} : { key: Buffer.from(row.key) }),
          value: row.payload,
          headers: fieldsOf({ ...row, key: null }),
          timestamp: BigInt(row.created_at.getTime()),
        })),
      })
    },
    close: () => producer.close(),
  }
}

async function storedIn(admin: Admin, name: string): Promise<number> {
  const partitions = Array.from({ length: PARTITIONS }, (_, partitionIndex) => ({
    partitionIndex,
    timestamp: ListOffsetTimestamps.LATEST,
  }))
  const [topic] = await admin.listOffsets({ topics: [{ name, partitions }] })
  return topic!.partitions.reduce((sum, { offset }) => sum + Number(offset), 0)
}

/** The client commits by itself, as in most applications. */
async function receive(topic: string, messages: number): Promise<void> {
  const consumer = new Consumer({ clientId: 'txbox-bench', bootstrapBrokers: BROKERS, groupId: randomUUID() })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: true })
  let handled = 0
  for await (const _ of stream) if (++handled === messages) break
  await consumer.close(true)
}

/** Commits the offsets when as many messages are handled as the source holds, and waits for the answer. */
async function receiveLikeSource(topic: string, messages: number): Promise<void> {
  const consumer = new Consumer({ clientId: 'txbox-bench', bootstrapBrokers: BROKERS, groupId: randomUUID() })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: false })
  const handlers = new HandlersByHand()
  let received = 0
  let handling: Promise<void>[] = []
  const next = new Map<number, bigint>()
  for await (const message of stream) {
    handling.push(handlers.handle(readRecord(message)))
    next.set(message.partition, message.offset + 1n)
    received += 1
    if (handling.length < PREFETCH && received < messages) continue
    await Promise.all(handling)
    handling = []
    const offsets = [...next].map(([partition, offset]) => ({ topic, partition, offset, leaderEpoch: -1 }))
    await consumer.commit({ offsets })
    next.clear()
    if (received === messages) break
  }
  await consumer.close(true)
}

function readRecord({ key, value, headers }: Message): ReadMessage {
  const fields = [...headers].map(([name, text]) => [name.toString(), text.toString()] as const)
  return readMessage([...fields, ['txbox-key', key.toString()]], value)
}
