import type { Consumer } from '@platformatic/kafka'
import { TopicLookup } from '../connection/topic-lookup.ts'

/** How often Kafka is asked whether topics have got more partitions. */
const REFRESH_MS = 30_000

/** UNKNOWN_TOPIC_OR_PARTITION and TOPIC_AUTHORIZATION_FAILED. */
const [MISSING, FORBIDDEN] = [3, 29]

/** The topics of a group: their leaders, and their numbers of partitions, by which the group divides them. */
export class WatchedTopics {
  readonly #consumer: Consumer
  readonly #names: readonly string[]
  readonly #lookup: TopicLookup
  readonly #failed: (error: unknown) => void
  readonly #partitions = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #refreshing: Promise<void> | undefined

  /** @param failed is called when a topic is missing, or the group must divide other partitions. */
  constructor(
    consumer: Consumer,
    { topics, timeoutMs }: { readonly topics: readonly string[]; readonly timeoutMs: number },
    failed: (error: unknown) => void,
  ) {
    this.#consumer = consumer
    this.#names = topics
    this.#lookup = new TopicLookup(consumer, timeoutMs)
    this.#failed = failed
    this.#timer = setInterval(() => {
      for (const topic of topics) this.outdated(topic)
      void this.refresh()
    }, REFRESH_MS).unref()
  }

  /** The numbers of partitions by topic. */
  get partitions(): ReadonlyMap<string, number> {
    return this.#partitions
  }

  /** Must be called when an answer has said that the metadata of the topic are out of date. */
  outdated(topic: string): void {
    this.#lookup.outdated(topic)
  }

  /** Looks up the topics whose metadata are missing or out of date. Never rejects. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.find()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => (this.#refreshing = undefined))
    return this.#refreshing
  }

  /** @throws when Kafka does not answer, and when a topic is missing or forbidden. */
  async find(): Promise<void> {
    for (const topic of this.#names) {
      const { partitions, refusal } = await this.#lookup.find(topic)
      if (refusal?.code === MISSING) throw new Error(`there is no topic '${topic}'`)
      if (refusal?.code === FORBIDDEN) {
        throw new Error(
          `the user may not read the topic '${topic}', or there is no such topic. Grant READ and DESCRIBE`,
        )
      }
      if (partitions === undefined) continue
      const before = this.#partitions.get(topic) ?? partitions
      this.#partitions.set(topic, partitions)
      if (before !== partitions) {
        throw new Error(
          `the topic '${topic}' has ${partitions} partitions now instead of ${before}, which the group must divide among its members`,
        )
      }
    }
  }

  /** The id of the broker that has a partition; undefined if there is none. */
  leaderOf({ topic, partition }: { readonly topic: string; readonly partition: number }): number | undefined {
    const metadata = this.#consumer.currentMetadata
    const leader = metadata?.topics.get(topic)?.partitions[partition]?.leader
    return leader !== undefined && metadata?.brokers.has(leader) === true ? leader : undefined
  }

  /** The id by which requests name the topic. */
  idOf(topic: string): string {
    return this.#consumer.currentMetadata?.topics.get(topic)?.id ?? ''
  }

  end(): void {
    clearInterval(this.#timer)
  }
}
