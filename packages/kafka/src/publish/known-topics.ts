import { RememberedNames } from '@txbox/core/internal'
import { partitionName } from '../connection/produce-answers.ts'
import { CHUNK_BYTES } from './placed-chunk.ts'

/** Above this number, what was learned of topics is forgotten. */
const MOST_TOPICS = 10_000

/**
 * The topics that took messages, and the topics and partitions that are missing, as far as this publisher has seen. If a topic that
 * took messages is missing, its messages wait, as in an outage. The name of a topic that was never there may be wrong, so its
 * messages use up their attempts.
 */
export class KnownTopics {
  readonly #seen = new RememberedNames()
  readonly #missing = new Set<string>()
  /** The size of batches that topics with a small `max.message.bytes` take. */
  readonly #chunkBytes = new Map<string, number>()

  /** Must be called when a partition of the topic has taken a message. */
  accepted(topic: string, partition: number): void {
    this.#seen.add(topic)
    this.#missing.delete(topic)
    this.#missing.delete(partitionName(topic, partition))
  }

  /** Must be called when a call has waited in vain for the topic, or for the partition of this name. */
  missed(name: string): void {
    if (this.#missing.size >= MOST_TOPICS) this.#missing.clear()
    this.#missing.add(name)
  }

  wasSeen(topic: string): boolean {
    return this.#seen.has(topic)
  }

  /** Whether a call has waited in vain for the topic, or for the partition of this name, so that others need not wait. */
  isMissing(name: string): boolean {
    return this.#missing.has(name)
  }

  /** Must be called when the topic has refused a batch of several records as too large. */
  tooLarge(topic: string, bytes: number): void {
    if (this.#chunkBytes.size >= MOST_TOPICS) this.#chunkBytes.clear()
    this.#chunkBytes.set(topic, bytes / 2)
  }

  /** The maximum size of a batch of several records. */
  chunkBytes(topic: string): number {
    return this.#chunkBytes.get(topic) ?? CHUNK_BYTES
  }
}
