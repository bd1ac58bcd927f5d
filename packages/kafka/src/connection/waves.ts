import type { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within } from '@txbox/core/internal'
import { ProduceAcks, type Producer } from '@platformatic/kafka'
import { refusalOfTopic } from './client-errors.ts'
import type { ConnectionSettings } from './connection-settings.ts'
import { STORED, answersIn, partitionName, type PartitionAnswer } from './produce-answers.ts'

/** A broker closes the connection of a larger request than 100 MiB, by default. */
const WAVE_BYTES = 20_000_000

/**
 * The client limits each of its requests, and then tells what other brokers have answered. This limit, a little later, is for what the
 * client does besides.
 */
const GRACE_MS = 500

/** The code LEADER_NOT_AVAILABLE. */
const NO_LEADER: PartitionAnswer = { code: 5, culprits: new Map() }

export interface ChunkRecord {
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
  /** Milliseconds since 1970. */
  readonly timestamp: number
}

/** Records of one partition, which become one batch. */
export interface Chunk {
  readonly topic: string
  readonly partition: number
  /** The number of partitions of the topic, when the partition was chosen. */
  readonly partitions: number
  readonly records: readonly ChunkRecord[]
  readonly bytes: number
}

/** `'unsent'`: nothing was sent, because the topic has changed, or is no longer known. Find the topic, and choose the partition again. */
export type ChunkAnswer = PartitionAnswer | 'unsent'

interface WaitingChunk {
  readonly chunk: Chunk
  readonly resolve: (answer: ChunkAnswer) => void
  readonly reject: (error: unknown) => void
}

/**
 * Sends chunks of all calls in waves: one request to each broker at a time, with at most one chunk for each partition. So chunks of a
 * partition keep their order, and what comes in the meantime shares the next wave.
 */
export class Waves {
  readonly #producer: Producer
  readonly #settings: ConnectionSettings
  readonly #failed: (error: unknown) => BrokerUnavailableError
  #waiting: WaitingChunk[] = []
  #inFlight: readonly WaitingChunk[] = []
  #isRunning = false

  /** @param failed is called when the result of chunks is unknown; ends the connection, and returns the error of its calls. */
  constructor(
    producer: Producer,
    settings: ConnectionSettings,
    failed: (error: unknown) => BrokerUnavailableError,
  ) {
    this.#producer = producer
    this.#settings = settings
    this.#failed = failed
  }

  async send(chunk: Chunk, signal: AbortSignal): Promise<ChunkAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ChunkAnswer>()
    const waiting = { chunk, resolve, reject }
    this.#waiting.push(waiting)
    if (!this.#isRunning) void this.#run()
    try {
      return await unlessAborted(promise, signal)
    } finally {
      this.#waiting = this.#waiting.filter((each) => each !== waiting)
    }
  }

  /** Ends all chunks, in flight or not. */
  fail(reason: BrokerUnavailableError): void {
    for (const { reject } of [...this.#inFlight, ...this.#waiting]) reject(reason)
    this.#inFlight = []
    this.#waiting = []
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    try {
      // What is sent in this turn of the event loop shares the first wave.
      await new Promise((resolve) => setImmediate(resolve))
      while (this.#waiting.length > 0) {
        this.#inFlight = this.#nextWave()
        await this.#sendWave(this.#inFlight)
        this.#inFlight = []
      }
    } catch (error) {
      // Rejects what has no answer.
      this.#failed(error)
    } finally {
      this.#isRunning = false
    }
  }

  /** Takes the chunks of the next wave out of those that wait. */
  #nextWave(): readonly WaitingChunk[] {
    const partitions = new Set<string>()
    const wave: WaitingChunk[] = []
    const later: WaitingChunk[] = []
    let bytes = 0
    for (const each of this.#waiting) {
      const name = partitionName(each.chunk.topic, each.chunk.partition)
      const fits = wave.length === 0 || bytes + each.chunk.bytes <= WAVE_BYTES
      if (!fits || partitions.has(name)) later.push(each)
      else {
        wave.push(each)
        bytes += each.chunk.bytes
      }
      // A later chunk of the partition must not overtake this one.
      partitions.add(name)
    }
    this.#waiting = later
    return wave
  }

  /** @throws the error of the request when a chunk has no answer: it is unknown whether its records are stored. */
  async #sendWave(wave: readonly WaitingChunk[]): Promise<void> {
    const sent: WaitingChunk[] = []
    for (const each of wave) {
      const objection = this.#objectionTo(each.chunk)
      if (objection === undefined) sent.push(each)
      else each.resolve(objection)
    }
    if (sent.length === 0) return
    try {
      await within(this.#produce(sent), this.#settings.confirmTimeoutMs + GRACE_MS, unanswered)
      for (const { resolve } of sent) resolve(STORED)
    } catch (error) {
      const answers = answersIn(error)
      // The client looks topics up before it sends: if that fails, nothing was sent.
      const others = answers.size === 0 && refusalOfTopic(error) !== undefined ? 'unsent' : undefined
      let isKnown = true
      for (const { chunk, resolve } of sent) {
        const answer = answers.get(partitionName(chunk.topic, chunk.partition)) ?? others
        if (answer === undefined) isKnown = false
        else resolve(answer)
      }
      if (!isKnown) throw error
    }
  }

  /** Why a chunk cannot be sent as it is. */
  #objectionTo({ topic, partition, partitions }: Chunk): PartitionAnswer | 'unsent' | undefined {
    const metadata = this.#producer.currentMetadata
    const found = metadata?.topics.get(topic)
    // The client would wrap a partition that there is not.
    if (metadata === undefined || found?.partitionsCount !== partitions) return 'unsent'
    return metadata.brokers.has(found.partitions[partition]?.leader ?? -1) ? undefined : NO_LEADER
  }

  async #produce(chunks: readonly WaitingChunk[]): Promise<unknown> {
    const { compression, idempotent } = this.#settings
    // The client writes into these objects.
    return await this.#producer.send({
      messages: chunks.flatMap(({ chunk: { topic, partition, records } }) =>
        records.map(({ key, value, headers, timestamp }) => ({
          topic,
          partition,
          ...(key === undefined ? {} : { key }),
          value,
          headers: headers as Map<Buffer, Buffer>,
          timestamp: BigInt(timestamp),
        })),
      ),
      // The client ignores the option of this name that it is created with.
      acks: ProduceAcks.ALL,
      compression,
      idempotent,
      repeatOnStaleMetadata: false,
      autocreateTopics: false,
    })
  }
}

function unanswered(ms: number): never {
  throw new Error(`no answer came within ${ms} ms`)
}
