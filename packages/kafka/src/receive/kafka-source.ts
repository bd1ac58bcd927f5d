import type { OpenSource, Source, SourceTraits } from '@txbox/core'
import { OptionChecker, oneLine } from '@txbox/core/internal'
import {
  CONNECTION_OPTIONS,
  clientSettings,
  type KafkaConnectionOptions,
} from '../connection/connection-options.ts'
import { KafkaSubscription, type SubscriptionSettings } from './kafka-subscription.ts'

/** The names that Kafka gives to topics. */
const TOPIC = /^[\w.-]{1,249}$/
const MOST_TOPICS = 100
/** How much longer than a rebalance an answer may take. */
const ANSWER_MS = 5000

export interface KafkaSourceOptions extends KafkaConnectionOptions {
  /** The topics to consume, 1 to 100. They must exist. */
  topics: readonly string[]
  /** The name of the consumer group, 1 to 255 characters without white space. Each partition belongs to one member of the group. */
  groupId: string
  /**
   * Where a partition begins of which the group has committed nothing yet: with the oldest record, or with the next one.
   *
   * @default 'earliest'
   */
  from?: 'earliest' | 'latest' | undefined
  /**
   * After this time without a sign of life, in milliseconds, the partitions of a member go to others. 1 s to 30 minutes; Kafka takes 6 s
   * at least, unless its `group.min.session.timeout.ms` is less.
   *
   * @default 10_000
   */
  sessionTimeoutMs?: number | undefined
  /** The maximum of fetched records that wait for the consumer, about, in bytes. 1,000 to 1,000,000,000. @default 50_000_000 */
  maxBytes?: number | undefined
  /**
   * The maximum of fetched records of one partition that wait for the consumer, about, in bytes, and of one request for a partition.
   * A larger record arrives nevertheless. 1,000 to 1,000,000,000.
   *
   * @default 1_000_000
   */
  maxBytesPerPartition?: number | undefined
}

const TRAITS: SourceTraits = {
  delays: false,
  countsDeliveries: false,
  keepsRejected: false,
  ordersKeys: false,
  settlesInTransaction: false,
  leaseMs: undefined,
  // Each partition has one consumer at a time, and all records of a key are in one partition.
  isExclusive: true,
}

/**
 * Receives the records of topics of Kafka, as a member of a consumer group. Messages are converted as by `fromKafka`, except that a
 * message may have no id; the ordering key is the key of the record.
 *
 * - Kafka keeps one offset for each partition. It is committed up to the oldest record that is not settled: after a crash, what was settled
 *   behind that record is delivered again. With an inbox, it has no second effect.
 * - When members join or leave, partitions change their owner. The deliveries of a partition that another member may have are lost, and
 *   never committed.
 * - At most once, a message is accepted together with all earlier ones of its partition. Those that still wait in this process are handled by
 *   it, and are lost if it dies or stops.
 * - A message that waits for its next attempt is held by the consumer, and holds up the commits of its partition.
 * - Kafka keeps no rejected messages and counts no deliveries: the consumer needs `deadLetters`, and a message that ends its process is
 *   delivered again and again.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function kafkaSource<P = unknown>(options: KafkaSourceOptions): Source<P> {
  const check = new OptionChecker('kafkaSource', options).known(
    ...CONNECTION_OPTIONS,
    ...['topics', 'groupId', 'from', 'sessionTimeoutMs', 'maxBytes', 'maxBytesPerPartition'],
  )
  const expected = `1 to ${MOST_TOPICS} names of topics of Kafka, each once`
  const topics = check.list('topics', isTopic, expected)
  if (topics.length === 0 || topics.length > MOST_TOPICS || new Set(topics).size < topics.length) {
    throw check.wrong('topics', expected)
  }
  const groupId = check.text('groupId', { max: 255 })
  if (/\s/.test(groupId)) throw check.wrong('groupId', 'text without white space')
  const bytes = { min: 1000, max: 1_000_000_000 }
  const sessionTimeoutMs = check.milliseconds('sessionTimeoutMs', {
    min: 1000,
    max: 1_800_000,
    default: 10_000,
  })
  return new KafkaSource<P>({
    client: clientSettings(check, options),
    group: { groupId, topics, sessionTimeoutMs },
    known: new Map(),
    from: check.oneOf('from', ['earliest', 'latest'] as const, 'earliest'),
    limits: {
      maxBytes: check.integer('maxBytes', { ...bytes, default: 50_000_000 }),
      maxBytesPerPartition: check.integer('maxBytesPerPartition', { ...bytes, default: 1_000_000 }),
    },
    answerTimeoutMs: sessionTimeoutMs + ANSWER_MS,
  })
}

class KafkaSource<P> implements Source<P> {
  readonly name: string
  readonly system = 'kafka'
  /** The topic of all messages; absent if the source reads several topics. */
  readonly destination: string | undefined
  readonly traits = TRAITS
  readonly #settings: SubscriptionSettings
  #turn = 0

  constructor(settings: SubscriptionSettings) {
    this.#settings = settings
    const { topics } = settings.group
    this.destination = topics.length === 1 ? topics[0] : undefined
    this.name = `kafka ${oneLine(topics.join(', '), 200)}`
  }

  open({ prefetch, failed, warned }: Parameters<Source<P>['open']>[0]): Promise<OpenSource<P>> {
    const how = { prefetch, failed, warned: (text: string) => warned?.(text) }
    return KafkaSubscription.open<P>(this.#settings, how, this.#turn++)
  }
}

function isTopic(value: unknown): value is string {
  return typeof value === 'string' && TOPIC.test(value) && value !== '.' && value !== '..'
}
