import { within } from '@txbox/core/internal'
import type { ClusterMetadata } from '@platformatic/kafka'
import { refusalOfTopic, type Refusal } from './client-errors.ts'
import { keepUsablePartitions } from './topic-metadata.ts'

/** A topic, or why it cannot be used at the moment. */
export type FoundTopic =
  | { readonly partitions: number; readonly refusal?: never }
  | { readonly partitions?: never; readonly refusal: Refusal }

/** The part of a producer or a consumer that knows topics. */
export interface KnowsTopics {
  readonly currentMetadata: ClusterMetadata | undefined
  metadata(options: { topics: string[]; forceUpdate: boolean }): Promise<ClusterMetadata>
}

/** Looks topics up, and restores the metadata that a client drops because of a single topic or partition. */
export class TopicLookup {
  readonly #client: KnowsTopics
  readonly #timeoutMs: number
  /** The topics whose metadata are out of date. */
  readonly #outdated = new Set<string>()

  constructor(client: KnowsTopics, timeoutMs: number) {
    this.#client = client
    this.#timeoutMs = timeoutMs
  }

  /** Must be called when an answer has said that the metadata of the topic are out of date. */
  outdated(topic: string): void {
    this.#outdated.add(topic)
  }

  /**
   * Looks a topic up. Asks Kafka if the metadata of the topic are missing or out of date. Afterwards, the client knows each partition
   * of the topic, with -1 for the leader of a partition that has none.
   *
   * @throws when that fails for a reason that is not the topic's.
   */
  async find(topic: string): Promise<FoundTopic> {
    const known = this.#client.currentMetadata
    try {
      await this.#askFor([topic], this.#outdated.has(topic))
    } catch (error) {
      const refusal = refusalOfTopic(error)
      if (refusal === undefined) throw error
      // The client would keep the metadata that it had of the topic before.
      known?.topics.delete(topic)
      await this.#restore(known)
      if (!keepUsablePartitions(error, topic, this.#client.currentMetadata)) return { refusal }
    }
    this.#outdated.delete(topic)
    const partitions = this.#client.currentMetadata?.topics.get(topic)?.partitionsCount ?? 0
    return partitions === 0 ? { refusal: { code: 3 } } : { partitions }
  }

  async #askFor(topics: string[], forceUpdate: boolean): Promise<void> {
    await within(this.#client.metadata({ topics, forceUpdate }), this.#timeoutMs, unanswered)
  }

  /** Restores the metadata of all topics, which the client drops after some answers about one topic. */
  async #restore(known: ClusterMetadata | undefined): Promise<void> {
    if (known === undefined || this.#client.currentMetadata !== undefined) return
    await this.#askFor([], true)
    const { topics } = this.#client.currentMetadata ?? known
    for (const [name, topic] of known.topics) if (!topics.has(name)) topics.set(name, topic)
  }
}

function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}
