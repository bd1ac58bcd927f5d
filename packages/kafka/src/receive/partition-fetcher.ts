import { ConnectionPool, FetchIsolationLevels, type Consumer, type fetchV17 } from '@platformatic/kafka'
import { responseIn } from '../connection/client-errors.ts'
import { clientOptions, type ClientSettings } from '../connection/client-settings.ts'
import { breakConnections, watchConnections } from '../connection/watched-connections.ts'
import type { OwnedPartition } from './owned-partition.ts'
import { recordsIn } from './stored-record.ts'
import type { WatchedTopics } from './watched-topics.ts'

type FetchResponse = fetchV17.FetchResponse
type FetchedPartition = fetchV17.FetchResponsePartition

/** How long Kafka waits for records. A partition that is added meanwhile waits as long. */
const WAIT_MS = 500
/** The pause of a partition after an answer that passes by itself. */
const RETRY_MS = 200
const NO_EPOCH = -1
/** Before Kafka 2.8, topics have no id: the client has zeros in its place, or the name. */
const NO_ID = '00000000-0000-0000-0000-000000000000'

const OUT_OF_RANGE = 1
/** A leader that has moved or is not there, a topic that was deleted and created again, a broker whose disk fails. */
const PASSING: ReadonlySet<number> = new Set([3, 5, 6, 9, 56, 74, 75, 76, 78, 100, 103])
/** The client begins another session by itself. */
const ANOTHER_SESSION: ReadonlySet<number> = new Set([70, 71, 106])

export interface FetchLimits {
  readonly maxBytes: number
  readonly maxBytesPerPartition: number
}

interface FetcherHow {
  readonly owned: () => readonly OwnedPartition[]
  /** Called when records have arrived. */
  readonly arrived: () => void
  /** Called when the position of the partition means nothing: Kafka has no record there, or the topic is another one. */
  readonly outOfRange: (partition: OwnedPartition, how: { readonly isRecreated: boolean }) => void
  readonly failed: (error: unknown) => void
}

/** Fetches records of the partitions of this member, with one request at a time to each broker, as long as there is room for them. */
export class PartitionFetcher {
  readonly #consumer: Consumer
  readonly #topics: WatchedTopics
  readonly #limits: FetchLimits
  readonly #how: FetcherHow
  /** Connections of their own: Kafka answers the requests of a connection one after the other, and heartbeats must not wait. */
  readonly #pool: ConnectionPool
  readonly #busy = new Set<number>()
  #timer: NodeJS.Timeout | undefined
  #isEnded = false

  constructor(
    consumer: Consumer,
    topics: WatchedTopics,
    { client, limits, timeoutMs }: { client: ClientSettings; limits: FetchLimits; timeoutMs: number },
    how: FetcherHow,
  ) {
    this.#consumer = consumer
    this.#topics = topics
    this.#limits = limits
    this.#how = how
    this.#pool = new ConnectionPool(client.clientId, {
      ...clientOptions(client, 0),
      requestTimeout: timeoutMs,
    })
    watchConnections(this.#pool)
  }

  /** Begins the requests for which there is room. Must be called when partitions were added, or when there is room again. */
  fetch(): void {
    if (this.#isEnded) return
    const owned = this.#how.owned()
    let waitingBytes = 0
    for (const partition of owned) {
      if (this.#isRecreated(partition)) this.#how.outOfRange(partition, { isRecreated: true })
      waitingBytes += partition.waitingBytes
    }
    if (waitingBytes >= this.#limits.maxBytes) return
    const requests = new Map<number, OwnedPartition[]>()
    for (const partition of owned) {
      if (!this.#hasRoom(partition)) continue
      const leader = this.#topics.leaderOf(partition)
      if (leader === undefined) this.#retryLater(partition)
      else if (!this.#busy.has(leader)) requests.set(leader, [...(requests.get(leader) ?? []), partition])
    }
    for (const [leader, partitions] of requests) void this.#request(leader, partitions)
  }

  end(): void {
    this.#isEnded = true
    clearTimeout(this.#timer)
    breakConnections(this.#pool)
    // The connections are broken already, so closing may fail.
    this.#pool.close().catch(() => undefined)
  }

  #hasRoom({ position, isFetching, isLost, waitingBytes, retryAt }: OwnedPartition): boolean {
    if (position === undefined || isFetching || isLost || retryAt > performance.now()) return false
    return waitingBytes < this.#limits.maxBytesPerPartition
  }

  #isRecreated(partition: OwnedPartition): boolean {
    const id = this.#topics.idOf(partition.topic)
    if (['', NO_ID, partition.topic].includes(id) || partition.position === undefined) return false
    partition.topicId ??= id
    return partition.topicId !== id
  }

  #retryLater(partition: OwnedPartition): void {
    this.#topics.outdated(partition.topic)
    partition.retryAt = performance.now() + RETRY_MS
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#topics.refresh().then(() => this.fetch())
    }, RETRY_MS + 1)
  }

  /** Never rejects. */
  async #request(leader: number, partitions: readonly OwnedPartition[]): Promise<void> {
    this.#busy.add(leader)
    const asked = new Map<string, { readonly partition: OwnedPartition; readonly from: bigint }>()
    for (const partition of partitions) {
      partition.isFetching = true
      asked.set(nameOf(this.#topics.idOf(partition.topic), partition.partition), {
        partition,
        from: partition.position!,
      })
    }
    try {
      const response = await this.#answer(leader, partitions)
      for (const { partition } of asked.values()) partition.isFetching = false
      if (!this.#isEnded) this.#take(response, asked)
    } catch (error) {
      for (const { partition } of asked.values()) partition.isFetching = false
      if (!this.#isEnded) this.#how.failed(error)
      return
    } finally {
      this.#busy.delete(leader)
    }
    this.fetch()
  }

  /** @returns the response, also if it has errors. */
  async #answer(leader: number, partitions: readonly OwnedPartition[]): Promise<FetchResponse> {
    const { maxBytes, maxBytesPerPartition } = this.#limits
    try {
      return await this.#consumer.fetch({
        node: leader,
        topics: partitions.map(({ topic, partition, position }) => ({
          topicId: this.#topics.idOf(topic),
          partitions: [
            {
              partition,
              fetchOffset: position!,
              partitionMaxBytes: maxBytesPerPartition,
              currentLeaderEpoch: NO_EPOCH,
              lastFetchedEpoch: NO_EPOCH,
            },
          ],
        })),
        connectionPool: this.#pool,
        minBytes: 1,
        maxBytes,
        maxWaitTime: WAIT_MS,
        isolationLevel: FetchIsolationLevels.READ_COMMITTED,
      })
    } catch (error) {
      const response = responseIn<FetchResponse>(error, 'responses')
      if (response === undefined) throw error
      return response
    }
  }

  /** @throws an error when the answer says that nothing can be fetched. */
  #take(
    { errorCode, responses }: FetchResponse,
    asked: ReadonlyMap<string, { readonly partition: OwnedPartition; readonly from: bigint }>,
  ): void {
    if (errorCode !== 0 && !ANOTHER_SESSION.has(errorCode)) {
      throw new Error(`Kafka answered with the code ${errorCode} when records were fetched`)
    }
    let hasArrived = false
    for (const { topicId, partitions } of responses) {
      for (const answer of partitions) {
        const { partition, from = -1n } = asked.get(nameOf(topicId, answer.partitionIndex)) ?? {}
        // Partitions of earlier requests may linger in a session of Kafka.
        if (partition === undefined || partition.isLost || partition.position !== from) continue
        if (answer.errorCode !== 0) this.#refused(partition, answer)
        else hasArrived = addTo(partition, from, answer) || hasArrived
      }
    }
    if (hasArrived) this.#how.arrived()
  }

  #refused(partition: OwnedPartition, { errorCode }: FetchedPartition): void {
    const { topic, partition: number } = partition
    if (PASSING.has(errorCode)) {
      this.#retryLater(partition)
      return
    }
    if (errorCode !== OUT_OF_RANGE) {
      throw new Error(
        `Kafka answered with the code ${errorCode} for partition ${number} of the topic '${topic}'`,
      )
    }
    this.#how.outOfRange(partition, { isRecreated: false })
  }
}

function addTo(partition: OwnedPartition, from: bigint, answer: FetchedPartition): boolean {
  const { records, next } = recordsIn(partition, answer.records ?? [], from, answer.abortedTransactions ?? [])
  partition.add(records, next)
  return records.length > 0
}

function nameOf(topicId: string, partition: number): string {
  return `${topicId}:${partition}`
}
