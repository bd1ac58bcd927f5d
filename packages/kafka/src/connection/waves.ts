import type { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within } from '@txbox/core/internal'
import type { Producer } from '@platformatic/kafka'
import type { Chunk } from './chunk.ts'
import type { ConnectionSettings } from './connection-settings.ts'
import { partitionName, type PartitionAnswer } from './produce-answers.ts'
import { ProduceRequests } from './produce-requests.ts'

/** A broker closes the connection of a larger request than 100 MiB, by default. */
const WAVE_BYTES = 20_000_000

/** The client limits each of its requests. This limit, a little later, is for what the client does besides. */
const GRACE_MS = 500

/** The code LEADER_NOT_AVAILABLE. */
const NO_LEADER: PartitionAnswer = { code: 5, culprits: new Map() }

/** `'unsent'`: nothing was sent, because the topic has changed, or is no longer known. Find the topic, and choose the partition again. */
export type ChunkAnswer = PartitionAnswer | 'unsent'

interface WaitingChunk {
  readonly chunk: Chunk
  readonly resolve: (answer: ChunkAnswer) => void
  readonly reject: (error: unknown) => void
}

/**
 * Sends chunks of all calls in waves: one request to each broker at a time, with at most one chunk for each partition. So chunks of a
 * partition keep their order, and what comes in the meantime shares the next wave. Brokers do not wait for each other.
 */
export class Waves {
  readonly requests: ProduceRequests
  readonly #producer: Producer
  readonly #settings: ConnectionSettings
  readonly #failed: (error: unknown) => BrokerUnavailableError
  #waiting: WaitingChunk[] = []
  /** The chunks of the request in flight, by the id of the broker. */
  readonly #inFlight = new Map<number, Set<WaitingChunk>>()
  #isPlanned = false

  /** @param failed is called when the result of chunks is unknown; ends the connection, and returns the error of its calls. */
  constructor(
    producer: Producer,
    settings: ConnectionSettings,
    failed: (error: unknown) => BrokerUnavailableError,
  ) {
    this.#producer = producer
    this.#settings = settings
    this.#failed = failed
    this.requests = new ProduceRequests(producer, settings)
  }

  /** @param signal takes the chunk back; if it is in flight, by ending the connection. */
  async send(chunk: Chunk, signal: AbortSignal): Promise<ChunkAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ChunkAnswer>()
    const waiting = { chunk, resolve, reject }
    this.#waiting.push(waiting)
    this.#startSoon()
    try {
      return await unlessAborted(promise, signal)
    } finally {
      if (signal.aborted) this.#takeBack(waiting)
    }
  }

  /** Ends all chunks, in flight or not. */
  fail(reason: BrokerUnavailableError): void {
    for (const { reject } of this.#waiting.splice(0)) reject(reason)
    for (const wave of this.#inFlight.values()) for (const { reject } of wave) reject(reason)
    this.#inFlight.clear()
  }

  #takeBack(waiting: WaitingChunk): void {
    this.#waiting = this.#waiting.filter((each) => each !== waiting)
    for (const wave of this.#inFlight.values()) {
      if (wave.has(waiting)) this.#failed(new Error('a call was aborted while its messages were in flight'))
    }
  }

  /** Starts waves at the end of this turn of the event loop: what is sent in one turn shares them. */
  #startSoon(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      this.#start()
    })
  }

  /** Takes the chunks of the next waves out of those that wait, and sends them. */
  #start(): void {
    const waves = new Map<number, { readonly chunks: Set<WaitingChunk>; bytes: number }>()
    const partitions = new Set<string>()
    for (const wave of this.#inFlight.values()) for (const { chunk } of wave) partitions.add(nameOf(chunk))
    const later: WaitingChunk[] = []
    let hasAnswered = false
    for (const each of this.#waiting) {
      const name = nameOf(each.chunk)
      const leader = partitions.has(name) ? undefined : this.#leaderOf(each.chunk)
      // A later chunk of the partition must not overtake this one.
      partitions.add(name)
      if (leader === undefined || (typeof leader === 'number' && this.#inFlight.has(leader))) later.push(each)
      else if (typeof leader !== 'number') {
        each.resolve(leader)
        hasAnswered = true
      } else {
        const wave = waves.get(leader) ?? { chunks: new Set(), bytes: 0 }
        waves.set(leader, wave)
        if (wave.chunks.size > 0 && wave.bytes + each.chunk.bytes > WAVE_BYTES) later.push(each)
        else {
          wave.chunks.add(each)
          wave.bytes += each.chunk.bytes
        }
      }
    }
    this.#waiting = later
    for (const [leader, { chunks }] of waves) void this.#run(leader, chunks)
    // No wave will end that has kept the later chunks of the partition waiting.
    if (hasAnswered && later.length > 0) this.#startSoon()
  }

  async #run(leader: number, wave: Set<WaitingChunk>): Promise<void> {
    this.#inFlight.set(leader, wave)
    try {
      await this.#send(leader, wave)
    } catch (error) {
      // Rejects what has no answer.
      this.#failed(error)
    }
    if (this.#inFlight.get(leader) === wave) this.#inFlight.delete(leader)
    this.#startSoon()
  }

  /** @throws the error of the request when a chunk has no answer: it is unknown whether its records are stored. */
  async #send(leader: number, wave: Set<WaitingChunk>): Promise<void> {
    const identity = await this.requests.identity()
    for (const each of wave) {
      const now = this.#leaderOf(each.chunk)
      if (now !== leader) answer(wave, each, typeof now === 'number' ? 'unsent' : now)
    }
    if (wave.size === 0) return
    const chunks = [...wave].map(({ chunk }) => chunk)
    const answers = await within(
      this.requests.send(leader, chunks, identity),
      this.#settings.confirmTimeoutMs + GRACE_MS,
      unanswered,
    )
    for (const each of [...wave]) {
      const found = answers.get(nameOf(each.chunk))
      if (found !== undefined) answer(wave, each, found)
    }
    if (wave.size > 0) throw new Error('its answer has no result for some of the messages')
  }

  /** The id of the broker for a chunk, or why the chunk cannot be sent as it is. */
  #leaderOf({ topic, partition, partitions }: Chunk): number | ChunkAnswer {
    const metadata = this.#producer.currentMetadata
    const found = metadata?.topics.get(topic)
    if (metadata === undefined || found?.partitionsCount !== partitions) return 'unsent'
    const leader = found.partitions[partition]?.leader ?? -1
    return metadata.brokers.has(leader) ? leader : NO_LEADER
  }
}

function nameOf({ topic, partition }: Chunk): string {
  return partitionName(topic, partition)
}

/** Passes the answer on. The chunk is no longer in flight. */
function answer(wave: Set<WaitingChunk>, each: WaitingChunk, given: ChunkAnswer): void {
  wave.delete(each)
  each.resolve(given)
}

function unanswered(ms: number): never {
  throw new Error(`no answer came within ${ms} ms`)
}
