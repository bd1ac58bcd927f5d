import type { BacklogMessage } from '@txbox/core'
import type { BatchKind } from './in-flight-batch.ts'

/**
 * The messages of a shard that were passed to the publisher in an earlier turn and are not settled. Their rows still
 * exist, so each read finds them again; neither these messages nor other messages of their keys may be published
 * meanwhile.
 */
export class MessagesInFlight {
  readonly #outbox = new Map<bigint, BacklogMessage>()
  readonly #parked = new Map<bigint, BacklogMessage>()
  readonly #keys = new Map<string, number>()
  #bytes = 0

  get size(): number {
    return this.#outbox.size + this.#parked.size
  }

  /** The total size of the payloads. */
  get bytes(): number {
    return this.#bytes
  }

  add(kind: BatchKind, message: BacklogMessage): void {
    this.#table(kind).set(message.seq, message)
    this.#bytes += message.payload.byteLength
    if (message.key !== undefined) this.#keys.set(message.key, (this.#keys.get(message.key) ?? 0) + 1)
  }

  remove(kind: BatchKind, message: BacklogMessage): void {
    if (!this.#table(kind).delete(message.seq)) return
    this.#bytes -= message.payload.byteLength
    if (message.key === undefined) return
    const count = this.#keys.get(message.key)! - 1
    if (count === 0) this.#keys.delete(message.key)
    else this.#keys.set(message.key, count)
  }

  /** Whether neither the message nor another message of its key is in flight. */
  mayPublish(kind: BatchKind, { seq, key }: BacklogMessage): boolean {
    if (this.size === 0) return true
    return !this.#table(kind).has(seq) && (key === undefined || !this.#keys.has(key))
  }

  #table(kind: BatchKind): Map<bigint, BacklogMessage> {
    return kind === 'outbox' ? this.#outbox : this.#parked
  }
}
