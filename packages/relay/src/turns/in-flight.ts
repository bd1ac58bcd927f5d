import type { BacklogMessage } from '@txbox/core'
import type { FlightKind } from './flight.ts'

/**
 * The numbers of messages in flight, as the note of a lease records them: from the lowest to the highest, both
 * included.
 */
export interface NumberRange {
  readonly from: bigint
  readonly to: bigint
}

/**
 * The messages of a shard that have been passed to the publisher and are not settled. Their rows still exist, so each
 * read finds them again; neither these messages nor other messages of their keys may be published meanwhile.
 */
export class InFlight {
  readonly #outbox = new Map<bigint, BacklogMessage>()
  readonly #parked = new Map<bigint, BacklogMessage>()
  readonly #keys = new Map<string, number>()
  /** The total size of the payloads, in bytes. */
  bytes = 0

  get size(): number {
    return this.#outbox.size + this.#parked.size
  }

  add(kind: FlightKind, message: BacklogMessage): void {
    this.#table(kind).set(message.seq, message)
    this.bytes += message.payload.byteLength
    if (message.key !== undefined) this.#keys.set(message.key, (this.#keys.get(message.key) ?? 0) + 1)
  }

  remove(kind: FlightKind, message: BacklogMessage): void {
    if (!this.#table(kind).delete(message.seq)) return
    this.bytes -= message.payload.byteLength
    if (message.key === undefined) return
    const count = this.#keys.get(message.key)! - 1
    if (count === 0) this.#keys.delete(message.key)
    else this.#keys.set(message.key, count)
  }

  /** Whether neither the message nor another message of its key is in flight. */
  lets(kind: FlightKind, { seq, key }: BacklogMessage): boolean {
    return !this.#table(kind).has(seq) && (key === undefined || !this.#keys.has(key))
  }

  #table(kind: FlightKind): Map<bigint, BacklogMessage> {
    return kind === 'outbox' ? this.#outbox : this.#parked
  }
}
