import type { BacklogMessage } from '@txbox/core/ports'
import type { BatchKind } from './in-flight-batch.ts'

/**
 * By number, nearly always one message each: after a failover, numbers of messages that are still in flight are given to
 * other messages, which have another stamp.
 */
type Numbered = Map<bigint, readonly BacklogMessage[]>

/**
 * The messages of a shard that were passed to the publisher in an earlier turn and are not settled. Their rows still
 * exist, so each read finds them again; neither these messages nor their successors in their keys may be published
 * meanwhile. A scheduled message has no successors.
 */
export class MessagesInFlight {
  readonly #outbox: Numbered = new Map()
  readonly #parked: Numbered = new Map()
  /** The keys of ordered messages, and the number of these messages. */
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
    const key = orderedKey(message)
    if (key !== undefined) this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1)
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
    const key = orderedKey(message)
    if (key === undefined) return
    const count = this.#keys.get(key)! - 1
    if (count === 0) this.#keys.delete(key)
    else this.#keys.set(key, count)
  }

  /** Whether neither the message nor, if the message is ordered, another ordered message of its key is in flight. */
  mayPublish(kind: BatchKind, message: BacklogMessage): boolean {
    const key = orderedKey(message)
    const numbered = this.#table(kind).get(message.seq)
    const isInFlight = numbered !== undefined && numbered.some(({ stamp }) => stamp === message.stamp)
    return !isInFlight && (key === undefined || !this.#keys.has(key))
  }

  #table(kind: BatchKind): Numbered {
    return kind === 'outbox' ? this.#outbox : this.#parked
  }
}

/** The key in whose order the message has a place, if there is one. */
function orderedKey({ key, ordered }: BacklogMessage): string | undefined {
  return ordered ? key : undefined
}
