import { NumericMap, ProduceAcks, kGetApi, type Producer, type produceV11 } from '@platformatic/kafka'
import { isStarting, responseIn } from './client-errors.ts'
import type { ConnectionSettings } from './connection-settings.ts'
import { Patience } from './patience.ts'
import { answersIn, partitionName, type PartitionAnswer } from './produce-answers.ts'
import type { Chunk } from './chunk.ts'

type ProduceApi = typeof produceV11.api

/** The numbers of records start at 0 again after the largest number of 31 bits. */
const SEQUENCES = 2 ** 31

/** How much of the time limit a leader waits for its replicas, so that its answer still comes in time. */
const REPLICAS_SHARE = 0.8

/** An id from Kafka, by which brokers recognize batches that arrive twice or out of order. */
export interface ProducerIdentity {
  readonly producerId: bigint
  readonly producerEpoch: number
  /** The number of the next record of each partition. */
  readonly sequences: Map<string, number>
}

/**
 * Sends requests to produce, each to one broker, and each once. The client's own `send` would wait for all brokers, send again what a
 * broker has refused as out of order, and choose another partition when a topic has changed meanwhile.
 */
export class ProduceRequests {
  readonly #producer: Producer
  readonly #settings: ConnectionSettings
  #identity: Promise<ProducerIdentity> | undefined

  constructor(producer: Producer, settings: ConnectionSettings) {
    this.#producer = producer
    this.#settings = settings
  }

  /**
   * Returns the identity of the producer, which Kafka gives out at the first call, and again after each refused batch. Undefined if the
   * producer is not idempotent.
   */
  async identity(signal?: AbortSignal): Promise<ProducerIdentity | undefined> {
    if (!this.#settings.idempotent) return undefined
    const identity = (this.#identity ??= this.#newIdentity(signal))
    try {
      return await identity
    } catch (error) {
      this.#forget(identity)
      throw error
    }
  }

  /**
   * Sends one batch for each chunk.
   *
   * @param identity is not used again if a batch is refused: the broker would expect other numbers than the next ones.
   * @returns the answers of Kafka by the names of the partitions.
   * @throws when it is unknown whether the batches are stored.
   */
  async send(
    leader: number,
    chunks: readonly Chunk[],
    identity: ProducerIdentity | undefined,
  ): Promise<ReadonlyMap<string, PartitionAnswer>> {
    const current = this.#identity
    try {
      const answers = answersIn(await this.#request(leader, chunks, identity))
      if ([...answers.values()].some(({ code }) => code !== 0)) this.#forget(current)
      return answers
    } catch (error) {
      this.#forget(current)
      throw error
    }
  }

  async #newIdentity(signal: AbortSignal | undefined): Promise<ProducerIdentity> {
    const patience = new Patience()
    for (;;) {
      try {
        const { producerId, producerEpoch } = await this.#producer.initIdempotentProducer({})
        return { producerId, producerEpoch, sequences: new Map() }
      } catch (error) {
        if (!isStarting(error) || !(await patience.wait(signal))) throw error
      }
    }
  }

  #forget(identity: Promise<ProducerIdentity> | undefined): void {
    if (this.#identity === identity) this.#identity = undefined
  }

  /** @returns the response, also if it has errors. @throws the error of a request that has no response. */
  async #request(
    leader: number,
    chunks: readonly Chunk[],
    identity: ProducerIdentity | undefined,
  ): Promise<unknown> {
    const { compression, confirmTimeoutMs } = this.#settings
    const options = { compression, ...numbered(chunks, identity) }
    const connection = await this.#producer.connections.get(
      this.#producer.currentMetadata!.brokers.get(leader)!,
    )
    const api = await new Promise<ProduceApi>((resolve, reject) => {
      this.#producer[kGetApi]('Produce', (error, found) =>
        error === null ? resolve(found as unknown as ProduceApi) : reject(error),
      )
    })
    const timeoutMs = Math.ceil(confirmTimeoutMs * REPLICAS_SHARE)
    return await new Promise((resolve, reject) => {
      api(connection, ProduceAcks.ALL, timeoutMs, chunks.flatMap(recordsOf), options, (error, response) => {
        const answered = error === null ? response : responseIn<{ responses: unknown }>(error, 'responses')
        if (answered === undefined) reject(error)
        else resolve(answered)
      })
    })
  }
}

/** Numbers the records of each partition, in the order in which requests are sent. */
function numbered(chunks: readonly Chunk[], identity: ProducerIdentity | undefined) {
  if (identity === undefined) return {}
  const { producerId, producerEpoch, sequences } = identity
  const first = new NumericMap()
  for (const { topic, partition, records } of chunks) {
    const name = partitionName(topic, partition)
    const next = sequences.get(name) ?? 0
    first.set(name, next)
    sequences.set(name, (next + records.length) % SEQUENCES)
  }
  return { producerId, producerEpoch, sequences: first }
}

function recordsOf({ topic, partition, records }: Chunk) {
  return records.map(({ key, value, headers, timestamp }) => ({
    topic,
    partition,
    ...(key === undefined ? {} : { key }),
    value,
    headers: headers as Map<Buffer, Buffer>,
    timestamp: BigInt(timestamp),
  }))
}
