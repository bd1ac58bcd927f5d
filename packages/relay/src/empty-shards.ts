import { SHARDS } from '@txbox/core'

const ALL = Array.from({ length: SHARDS }, (_, shard) => shard)

/** When each shard was last seen with nothing that could go, by us or by asking; times are on the monotonic clock. */
export class EmptyShards {
  readonly #seenAt = new Map<number, number>()
  #news = Promise.withResolvers<void>()

  /** `at`: when whoever saw it began to look. */
  seen(shards: readonly number[], at: number): void {
    if (shards.length === 0) return
    for (const shard of shards) this.#seenAt.set(shard, at)
    this.#news.resolve()
    this.#news = Promise.withResolvers()
  }

  /** Must be called when the server is another one, or has gone back in time. */
  forget(): void {
    this.#seenAt.clear()
  }

  /** Those that have not been seen empty since then. */
  unseenSince(since: number): readonly number[] {
    return ALL.filter((shard) => (this.#seenAt.get(shard) ?? -1) < since)
  }

  /** Resolves when the next one is seen. */
  next(): Promise<void> {
    return this.#news.promise
  }
}
