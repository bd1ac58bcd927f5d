import { randomUUID } from 'node:crypto'
import { Admin } from '@platformatic/kafka'
import { kafkaPublisher, type KafkaPublisherOptions, type Publisher } from '@txbox/kafka'
import { onTestFinished } from 'vitest'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { TopicLog, type StoredRecord } from './topic-log.ts'

/** A Kafka of one broker, for the tests of a file. */
export class KafkaUnderTest {
  /** As `host:port`. */
  readonly address: string
  readonly admin: Admin

  constructor(address: string) {
    this.address = address
    this.admin = new Admin({ clientId: 'txbox-test', bootstrapBrokers: [address] })
  }

  /** A name that no other test uses. */
  name(text = 'topic'): string {
    return `${text}-${randomUUID().slice(0, 13)}`
  }

  /** Creates a topic. */
  async topic({
    topic = this.name(),
    partitions = 3,
    configs = {},
  }: {
    topic?: string
    partitions?: number
    configs?: Readonly<Record<string, string>>
  } = {}): Promise<string> {
    await this.admin.createTopics({
      topics: [topic],
      partitions,
      replicas: 1,
      // Retention counts from the time of a record, which is months ago in many tests.
      configs: Object.entries({ 'retention.ms': '-1', ...configs }).map(([name, value]) => ({ name, value })),
    })
    return topic
  }

  /** How many records of a topic a group has committed. */
  async committed(topic: string, groupId: string): Promise<number> {
    const [group] = await this.admin.listConsumerGroupOffsets({ groups: [groupId] })
    const partitions = group?.topics.find(({ name }) => name === topic)?.partitions ?? []
    return partitions.reduce((sum, { committedOffset }) => sum + Math.max(0, Number(committedOffset)), 0)
  }

  /** The log of a topic, which is closed at the end of the test. */
  async log(topic: string): Promise<TopicLog> {
    const log = await TopicLog.of(this.address, topic)
    onTestFinished(() => log.close())
    return log
  }

  /** A publisher that is closed at the end of the test. */
  publisher(options: Partial<KafkaPublisherOptions> = {}): Publisher {
    const publisher = kafkaPublisher({ brokers: [this.address], ...options })
    onTestFinished(() => publisher.close?.())
    return publisher
  }

  /** A network between a publisher and the broker, whose clients find the broker only behind it. Closed at the end of the test. */
  async network(): Promise<UnreliableNetwork> {
    const [host, port] = this.address.split(':') as [string, string]
    const advertised = placeOf(host, Number(port))
    const network = await UnreliableNetwork.to({ host, port: Number(port) }, (bytes) =>
      replaced(bytes, advertised, placeOf(host, network.address.port)),
    )
    onTestFinished(() => network.close())
    return network
  }

  async close(): Promise<void> {
    await this.admin.close()
  }
}

/** A broker's host and port as metadata have them. */
function placeOf(host: string, port: number): Buffer {
  const bytes = Buffer.alloc(host.length + 4)
  bytes.write(host)
  bytes.writeInt32BE(port, host.length)
  return bytes
}

function replaced(bytes: Buffer, from: Buffer, to: Buffer): Buffer {
  const result = Buffer.from(bytes)
  for (let at = result.indexOf(from); at >= 0; at = result.indexOf(from, at)) at += to.copy(result, at)
  return result
}

/** The last header of a name, as most readers take it. */
export function headerOf({ headers }: StoredRecord, name: string): string | undefined {
  return headers.findLast(([each]) => each === name)?.[1]
}

export function idOf(record: StoredRecord): string {
  return headerOf(record, 'txbox-id') ?? ''
}

export function idsOf(records: readonly StoredRecord[]): string[] {
  return records.map(idOf)
}
