import type { Chunk } from '../connection/chunk.ts'
import type { OutgoingRecord } from './outgoing-record.ts'

/** Kafka refuses batches above 1 MiB, by default. */
export const CHUNK_BYTES = 900_000

/** The client writes a greater difference of times within a batch wrong. */
const CHUNK_TIMES_MS = 2_000_000_000

/** Records of one partition that are stored together or not at all, and the places of their messages in the call. */
export class PlacedChunk implements Chunk {
  readonly topic: string
  readonly partition: number
  readonly partitions: number
  /** The places of the messages that need not wait for another one of this chunk. */
  readonly heads: number[] = []
  readonly #records = new Map<number, OutgoingRecord>()
  #mostBytes: number
  #bytes = 0
  #earliest = Infinity
  #latest = -Infinity

  constructor(
    where: { readonly topic: string; readonly partition: number; readonly partitions: number },
    mostBytes: number,
  ) {
    this.topic = where.topic
    this.partition = where.partition
    this.partitions = where.partitions
    this.#mostBytes = mostBytes
  }

  /** The places of the messages, in the order of the call. */
  get places(): readonly number[] {
    return [...this.#records.keys()].sort((a, b) => a - b)
  }

  get records(): readonly OutgoingRecord[] {
    return this.places.map((place) => this.#records.get(place)!)
  }

  get bytes(): number {
    return this.#bytes
  }

  has(place: number): boolean {
    return this.#records.has(place)
  }

  /** Whether the record fits into this chunk. The first record always does. */
  hasRoomFor({ bytes, timestamp }: OutgoingRecord): boolean {
    if (this.#records.size === 0) return true
    const spanMs = Math.max(this.#latest, timestamp) - Math.min(this.#earliest, timestamp)
    return this.#bytes + bytes <= this.#mostBytes && spanMs <= CHUNK_TIMES_MS
  }

  add(place: number, record: OutgoingRecord): void {
    this.#records.set(place, record)
    this.#bytes += record.bytes
    this.#earliest = Math.min(this.#earliest, record.timestamp)
    this.#latest = Math.max(this.#latest, record.timestamp)
  }

  /** No other record is added from now on. */
  close(): void {
    this.#mostBytes = 0
  }
}
