import { BrokerUnavailableError, type Delivery, type OpenSource } from '@txbox/core'
import { pause, propertyOf, unlessAborted, within } from '@txbox/core/internal'
import { errorCodesIn, reasonIn } from '../connection/client-errors.ts'
import { addressOf, secretsOf, type ClientSettings } from '../connection/client-settings.ts'
import { Commits } from './commits.ts'
import { GroupMember, type Assignment, type GroupSettings } from './group-member.ts'
import { HandedOutRecords } from './handed-out-records.ts'
import { OwnedPartition } from './owned-partition.ts'
import { PartitionFetcher, type FetchLimits } from './partition-fetcher.ts'
import { startAtOldest, startOffsets } from './start-offsets.ts'
import type { StoredRecord } from './stored-record.ts'
import { abandonedText, restartText } from './warning-texts.ts'
import { WatchedTopics } from './watched-topics.ts'

/** How long the last commit may take. */
const CLOSE_TIMEOUT_MS = 2000
const RETRY_MS = 200
/** The user may not read the topic, or not join the group, or nothing at all. */
const FORBIDDEN: ReadonlySet<number> = new Set([29, 30, 31])

export interface SubscriptionSettings {
  readonly client: ClientSettings
  readonly group: GroupSettings
  readonly limits: FetchLimits
  readonly from: 'earliest' | 'latest'
  /** The numbers of partitions by topic with which earlier memberships have begun. */
  readonly known: Map<string, number>
  /** The longest time without an answer. */
  readonly answerTimeoutMs: number
}

export interface SubscriptionHow {
  readonly prefetch: number
  readonly failed: (error: unknown) => void
  readonly warned: (text: string) => void
}

/** One membership in a group, with its connections. It never connects again: after a failure the source opens another one. */
export class KafkaSubscription<P> implements OpenSource<P> {
  readonly #settings: SubscriptionSettings
  readonly #how: SubscriptionHow
  readonly #member: GroupMember
  readonly #topics: WatchedTopics
  readonly #fetcher: PartitionFetcher
  readonly #commits: Commits
  readonly #records: HandedOutRecords<P>
  readonly #ended = new AbortController()
  #owned: readonly OwnedPartition[] = []
  /** Resolves when the newest partitions have a position. */
  #begun: Promise<void> = Promise.resolve()
  #wake = Promise.withResolvers<void>()
  #failure: Error | undefined
  #isOpen = false
  #isReceiving = true

  private constructor(settings: SubscriptionSettings, how: SubscriptionHow, turn: number) {
    this.#settings = settings
    this.#how = how
    const { client, group, limits, answerTimeoutMs } = settings
    const owned = (): readonly OwnedPartition[] => this.#owned
    const failed = (error: unknown): void => void this.#fail(error)
    this.#member = new GroupMember(client, group, turn, {
      assigned: (assignment) => this.#assigned(assignment),
      rebalancing: () => void this.#commits.send(),
      failed,
    })
    const { consumer } = this.#member
    const { topics } = group
    this.#topics = new WatchedTopics(consumer, { topics, timeoutMs: answerTimeoutMs }, failed)
    const arrived = (): void => this.#wake.resolve()
    this.#fetcher = new PartitionFetcher(
      consumer,
      this.#topics,
      { client, limits, timeoutMs: answerTimeoutMs },
      { owned, arrived, failed, outOfRange: (partition, each) => void this.#beginAtOldest(partition, each) },
    )
    const commit = (offsets: Parameters<typeof consumer.commit>[0]['offsets']): Promise<void> =>
      consumer.commit({ offsets })
    this.#commits = new Commits({ owned, commit: (offsets) => commit([...offsets]), failed })
    const abandoned = (record: StoredRecord): void => how.warned(abandonedText(record))
    this.#records = new HandedOutRecords(this.#commits, how.prefetch, { hasRoom: arrived, abandoned })
  }

  /**
   * Connects, and joins the group. Returns before the group is complete if that takes longer than connecting may.
   *
   * @throws {BrokerUnavailableError} when that fails; the message says why.
   */
  static async open<P>(
    settings: SubscriptionSettings,
    how: SubscriptionHow,
    turn: number,
  ): Promise<KafkaSubscription<P>> {
    const subscription = new KafkaSubscription<P>(settings, how, turn)
    const { connectTimeoutMs } = settings.client
    try {
      await within(subscription.#topics.find(), connectTimeoutMs, unanswered)
      await within(subscription.#join(), connectTimeoutMs, () => undefined)
      if (subscription.#failure !== undefined) throw subscription.#failure
      subscription.#isOpen = true
      return subscription
    } catch (error) {
      throw subscription.#fail(error)
    }
  }

  async receive(limit: number, { signal }: { signal: AbortSignal }): Promise<readonly Delivery<P>[]> {
    const wake = (): void => this.#wake.resolve()
    signal.addEventListener('abort', wake)
    try {
      for (;;) {
        if (this.#failure !== undefined) throw this.#failure
        if (signal.aborted || !this.#isReceiving) return []
        const deliveries = this.#records.take(this.#owned, limit)
        this.#fetcher.fetch()
        if (deliveries.length > 0) return deliveries
        await this.#wake.promise
        this.#wake = Promise.withResolvers()
      }
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  stopReceiving(): void {
    this.#isReceiving = false
    this.#fetcher.end()
    this.#wake.resolve()
  }

  async close({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#failure === undefined) {
      this.stopReceiving()
      const flushed = within(this.#commits.flush(), CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
      // Records whose commit fails are delivered again.
      await unlessAborted(flushed, signal).catch(() => undefined)
    }
    this.#end(new BrokerUnavailableError(`The consumer of ${this.#name} disconnects.`))
    // The other members get the partitions at once, and not when the session has expired.
    await unlessAborted(this.#member.leave(), signal).catch(() => undefined)
    this.#member.disconnect()
  }

  /** Joins the group, and commits where it begins. */
  async #join(): Promise<void> {
    await this.#member.join()
    await this.#begun
    await this.#commits.send()
    if (this.#failure !== undefined) return
    for (const [topic, partitions] of this.#topics.partitions) this.#settings.known.set(topic, partitions)
  }

  /** A partition that its topic did not have before has no record that the group may leave out. */
  #fromOf({ topic, partition }: OwnedPartition): 'earliest' | 'latest' {
    const { from, known } = this.#settings
    return partition >= (known.get(topic) ?? Infinity) ? 'earliest' : from
  }

  get #name(): string {
    return `the group '${this.#settings.group.groupId}' of Kafka at ${addressOf(this.#settings.client)}`
  }

  /** Takes over the partitions of this member. Deliveries of a partition that another member may have had meanwhile are lost. */
  #assigned({ isContinued, partitions }: Assignment): void {
    if (this.#failure !== undefined) return
    const before = new Map(this.#owned.map((each) => [nameOf(each), each]))
    this.#owned = partitions.map((each) => {
      const kept = isContinued ? before.get(nameOf(each)) : undefined
      if (kept !== undefined) before.delete(nameOf(each))
      return kept ?? new OwnedPartition(each.topic, each.partition)
    })
    this.#lose(
      [...before.values()],
      new BrokerUnavailableError(`The partition belongs to another member of ${this.#name}.`),
    )
    this.#commits.joined()
    const fresh = this.#owned.filter(({ position }) => position === undefined)
    this.#begun = this.#untilBegun(fresh, () => {
      const left = fresh.filter(({ isLost, position }) => !isLost && position === undefined)
      return startOffsets(this.#member.consumer, left, (each) => this.#fromOf(each))
    })
  }

  /** Goes on at the oldest record that is left, although the group has not received the records before it. */
  async #beginAtOldest(partition: OwnedPartition, { isRecreated }: { isRecreated: boolean }): Promise<void> {
    const { position = 0n } = partition
    partition.lostPosition()
    const fresh = new OwnedPartition(partition.topic, partition.partition)
    await this.#untilBegun([fresh], () => startAtOldest(this.#member.consumer, fresh))
    if (fresh.position === undefined || partition.isLost) return
    if (isRecreated || fresh.position < position) this.#replace(partition, fresh)
    else if (partition.position === undefined) partition.begin(fresh.position, false)
    this.#how.warned(restartText(fresh, position, { isRecreated }))
    this.#commits.request()
    this.#fetcher.fetch()
  }

  /**
   * Replaces the state of a partition whose offsets now belong to other records, so that the offsets of unsettled records mean
   * nothing any more.
   */
  #replace(partition: OwnedPartition, fresh: OwnedPartition): void {
    this.#owned = this.#owned.map((each) => (each === partition ? fresh : each))
    const text = `The group begins again with the oldest record of a partition, as a member of ${this.#name}.`
    this.#lose([partition], new BrokerUnavailableError(text))
  }

  /** Repeats `begin` until all partitions have a position, or are lost. Never rejects. */
  async #untilBegun(partitions: readonly OwnedPartition[], begin: () => Promise<void>): Promise<void> {
    const isLeft = ({ isLost, position }: OwnedPartition): boolean => !isLost && position === undefined
    for (let isFirst = true; partitions.some(isLeft) && this.#failure === undefined; isFirst = false) {
      if (!isFirst) await pause(RETRY_MS, this.#ended.signal)
      try {
        await begin()
      } catch (error) {
        const codes = errorCodesIn(error)
        if (codes.length === 0 || codes.some((code) => FORBIDDEN.has(code))) this.#fail(error)
      }
    }
    this.#commits.request()
    this.#fetcher.fetch()
  }

  /** @returns the failure. */
  #fail(error: unknown): Error {
    if (this.#failure !== undefined) return this.#failure
    const { client } = this.#settings
    const isOfClient = String(propertyOf(error, 'code')).startsWith('PLT_')
    const advice = isOfClient
      ? " Check that Kafka runs there, and the options 'brokers', 'tls' and 'sasl'."
      : ''
    const reason = reasonIn(error, secretsOf(client))
    const failure = new BrokerUnavailableError(`The connection to ${this.#name} ended: ${reason}.${advice}`, {
      cause: error,
    })
    this.#end(failure)
    // Otherwise the member would keep its partitions without reading them.
    void this.#member.leave()
    if (this.#isOpen) this.#how.failed(failure)
    return failure
  }

  #end(failure: Error): void {
    this.#failure ??= failure
    this.#ended.abort()
    this.#topics.end()
    this.#fetcher.end()
    this.#lose(this.#owned, this.#failure)
    this.#commits.end()
    this.#wake.resolve()
  }

  #lose(partitions: readonly OwnedPartition[], reason: Error): void {
    for (const partition of partitions) {
      for (const record of partition.lose()) this.#how.warned(abandonedText(record))
    }
    this.#records.loseOf((partition) => partition.isLost, reason)
    this.#commits.settleWaiters()
  }
}

function nameOf({ topic, partition }: { readonly topic: string; readonly partition: number }): string {
  return `${topic}:${partition}`
}

function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}
