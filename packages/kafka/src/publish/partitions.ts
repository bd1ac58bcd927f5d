import { compatibilityPartitioner } from '@platformatic/kafka'

/** The partitioner looks at the key only. */
const ANY_MESSAGE = { topic: '', value: Buffer.alloc(0) }

/**
 * Chooses the partition of each record: by the hash of its key, as Kafka's Java client does, so that other producers agree; in turn
 * for records without a key.
 */
export class Partitions {
  #turn = 0

  /** @param count the number of partitions of the topic. */
  of(key: Buffer | undefined, count: number): number {
    if (key !== undefined) return compatibilityPartitioner(ANY_MESSAGE, key) % count
    this.#turn = (this.#turn + 1) % Number.MAX_SAFE_INTEGER
    return this.#turn % count
  }
}
