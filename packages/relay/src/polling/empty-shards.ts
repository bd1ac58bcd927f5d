import { SHARDS } from '@txbox/core/internal'

const ALL = Array.from({ length: SHARDS }, (_, shard) => shard)

/**
 * When each shard was last seen with nothing to publish, by its owner or by a query; times are on the monotonic clock.
 */
export class EmptyShards {
  readonly #seenAt = new Map<number, number>()
  readonly #waiting = new Set<() => void>()

  /** @param at when the read or query that found the shards empty began. */
  seen(shards: readonly number[], at: number): void {
    if (shards.length === 0) return
    for (const shard of shards) this.#seenAt.set(shard, Math.max(at, this.#seenAt.get(shard) ?? at))
    for (const resolve of this.#waiting) resolve()
  }

  /** Must be called when the server is another one, or has gone back in time. */
  forget(): void {
    this.#seenAt.clear()
  }

  unseenSince(since: number): readonly number[] {
    return ALL.filter((shard) => (this.#seenAt.get(shard) ?? -1) < since)
  }

  /** Resolves when the next shard is seen empty, or after this time. */
  async next(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#waiting.add(resolve)
    await promise
    clearTimeout(timer)
    this.#waiting.delete(resolve)
  }
}
