import { setTimeout as pause } from 'node:timers/promises'
import { Connection, fetchV17, metadataV12 } from '@platformatic/kafka'

/** A record as Kafka stores it. */
export interface StoredRecord {
  readonly partition: number
  readonly key: Buffer | null
  readonly value: Buffer
  /** In the order of the record; a name may occur twice. */
  readonly headers: readonly (readonly [string, string])[]
  /** Milliseconds since 1970. */
  readonly timestamp: number
}

interface Partition {
  readonly index: number
  offset: bigint
}

const FETCH_BYTES = 52_428_800

/** Reads the log of a topic, whose partitions all have the same leader, in the order of each partition. */
export class TopicLog {
  readonly #connection = new Connection('txbox-test')
  #topicId = ''
  #partitions: readonly Partition[] = []

  /** @param address of the broker, as `host:port`. */
  static async of(address: string, topic: string): Promise<TopicLog> {
    const log = new TopicLog()
    const [host, port] = address.split(':') as [string, string]
    await log.#connection.connect(host, Number(port))
    // A topic that was just made has no leaders for a moment.
    for (let attempt = 0; ; attempt += 1) {
      try {
        const { topics } = await metadataV12.api.async(log.#connection, [topic], false, false)
        log.#topicId = topics[0]!.topicId
        log.#partitions = topics[0]!.partitions.map(({ partitionIndex }) => ({
          index: partitionIndex,
          offset: 0n,
        }))
        await log.#fetch(log.#partitions)
        return log
      } catch (error) {
        if (attempt === 100) throw error
        await pause(50)
      }
    }
  }

  /** The records since the last call, up to what is stored now. */
  async take(): Promise<StoredRecord[]> {
    const taken: StoredRecord[] = []
    const left = new Set(this.#partitions)
    while (left.size > 0) {
      for (const { index, highWatermark, records } of await this.#fetch([...left])) {
        const partition = this.#partitions.find((each) => each.index === index)!
        for (const { offset, record } of records) {
          if (offset < partition.offset) continue
          taken.push({ partition: index, ...record })
          partition.offset = offset + 1n
        }
        if (partition.offset >= highWatermark) left.delete(partition)
      }
    }
    return taken
  }

  async close(): Promise<void> {
    await this.#connection.close()
  }

  async #fetch(partitions: readonly Partition[]) {
    const asked = partitions.map(({ index, offset }) => ({
      partition: index,
      currentLeaderEpoch: -1,
      fetchOffset: offset,
      lastFetchedEpoch: -1,
      partitionMaxBytes: FETCH_BYTES,
    }))
    const topics = [{ topicId: this.#topicId, partitions: asked }]
    const { responses } = await fetchV17.api.async(
      this.#connection,
      0,
      0,
      FETCH_BYTES,
      0,
      0,
      -1,
      topics,
      [],
      '',
    )
    return responses.flatMap(({ partitions }) =>
      partitions.map(({ partitionIndex, highWatermark, records }) => ({
        index: partitionIndex,
        highWatermark,
        records: (records ?? []).flatMap(({ firstOffset, firstTimestamp, records }) =>
          records.map(({ offsetDelta, timestampDelta, key, value, headers }) => ({
            offset: firstOffset + BigInt(offsetDelta),
            record: {
              key,
              value: value ?? Buffer.alloc(0),
              headers: headers.map(([name, text]) => [String(name), String(text)] as const),
              timestamp: Number(firstTimestamp + timestampDelta),
            },
          })),
        ),
      })),
    )
  }
}
