import { randomUUID } from 'node:crypto'
import { Consumer } from '@platformatic/kafka'

/** A record of Kafka. A header without a value is `null`. */
export interface ReceivedRecord {
  readonly topic: string
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string | null>>
}

/** Receives all records of topics, from the first. */
export class Records {
  readonly received: ReceivedRecord[] = []
  readonly #consumer: Consumer

  private constructor(consumer: Consumer) {
    this.#consumer = consumer
  }

  static async of(kafka: string, topics: readonly string[]): Promise<Records> {
    const consumer = new Consumer({
      groupId: `txbox-test-${randomUUID()}`,
      clientId: 'txbox-test',
      bootstrapBrokers: [kafka],
    })
    const records = new Records(consumer)
    const stream = await consumer.consume({ topics: [...topics], mode: 'earliest', autocommit: false })
    stream.on('data', ({ topic, key, value, headers }) => {
      const all = [...headers].map(([name, text]) => [String(name), textOf(text)] as const)
      records.received.push({ topic, key, value, headers: Object.fromEntries(all) })
    })
    return records
  }

  /** The first arrival of each message, in the order of arrival. */
  get firstArrivals(): readonly ReceivedRecord[] {
    const ids = new Set<unknown>()
    return this.received.filter(({ headers }) => {
      const id = headers['txbox-id']
      return !ids.has(id) && ids.add(id)
    })
  }

  async close(): Promise<void> {
    await this.#consumer.close(true)
  }
}

function textOf(value: Buffer | null | undefined): string | null {
  return value === null || value === undefined ? null : value.toString('utf8')
}
