import type { HeldShard } from './lease-keeper.ts'

/** Shards that have something to do, in turn; lanes wait here for the next one. */
export class ReadyShards {
  readonly #queue = new Map<number, HeldShard>()
  readonly #waiting: ((held: HeldShard | undefined) => void)[] = []
  #closed = false

  add(held: HeldShard): void {
    if (this.#closed || !isFree(held)) return
    const waiting = this.#waiting.shift()
    if (waiting === undefined) {
      this.#queue.set(held.shard, held)
    } else {
      held.busy = true
      waiting(held)
    }
  }

  /** The next shard, marked as busy; `undefined` when there will be no more. */
  async next(): Promise<HeldShard | undefined> {
    for (const [shard, held] of this.#queue) {
      this.#queue.delete(shard)
      if (!isFree(held)) continue
      held.busy = true
      return held
    }
    if (this.#closed) return undefined
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  close(): void {
    this.#closed = true
    this.#queue.clear()
    for (const waiting of this.#waiting.splice(0)) waiting(undefined)
  }
}

function isFree(held: HeldShard): boolean {
  return !held.busy && !held.leaving && held.trust.holds()
}
