import type { BacklogMessage } from '@txbox/core'
import type { BatchKind } from './in-flight-batch.ts'

/**
 * By number, nearly always one message each: after a failover, numbers of messages that are still in flight are given to
 * other messages, which have another stamp.
 */
type Numbered = Map<bigint, readonly BacklogMessage[]>

/**
 * The messages of a shard that were passed to the publisher in an earlier turn and are not settled. Their rows still
 * exist, so each read finds them again; neither these messages nor other messages of their keys may be published
 * meanwhile.
 */
export class MessagesInFlight {
  readonly #outbox: Numbered = new Map()
  readonly #parked: Numbered = new Map()
  readonly #keys = new Map<string, number>()
  #size = 0
  #bytes = 0

  get size(): number {
    return this.#size
  }

  /** The total size of the payloads. */
  get bytes(): number {
    return this.#bytes
  }

  add(kind: BatchKind, message: BacklogMessage): void {
    const table = this.#table(kind)
    table.set(message.seq, [...(table.get(message.seq) ?? []), message])
    this.#size++
    this.#bytes += message.payload.byteLength
    if (message.key !== undefined) this.#keys.set(message.key, (this.#keys.get(message.key) ?? 0) + 1)
  }

  remove(kind: BatchKind, message: BacklogMessage): void {
    const table = this.#table(kind)
    const numbered = table.get(message.seq) ?? []
    const others = numbered.filter(({ stamp }) => stamp !== message.stamp)
    if (others.length === numbered.length) return
    if (others.length === 0) table.delete(message.seq)
    else table.set(message.seq, others)
    this.#size--
    this.#bytes -= message.payload.byteLength
    if (message.key === undefined) return
    const count = this.#keys.get(message.key)! - 1
    if (count === 0) this.#keys.delete(message.key)
    else this.#keys.set(message.key, count)
  }

  /** Whether neither the message nor another message of its key is in flight. */
  mayPublish(kind: BatchKind, { seq, stamp, key }: BacklogMessage): boolean {
    const numbered = this.#table(kind).get(seq)
    const isInFlight = numbered !== undefined && numbered.some((message) => message.stamp === stamp)
    return !isInFlight && (key === undefined || !this.#keys.has(key))
  }

  #table(kind: BatchKind): Numbered {
    return kind === 'outbox' ? this.#outbox : this.#parked
  }
}
