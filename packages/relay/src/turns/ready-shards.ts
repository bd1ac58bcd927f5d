import type { HeldShard } from '../leases/held-shard.ts'

/** A queue of the shards that have messages to publish; lanes wait here for the next shard. */
export class ReadyShards {
  readonly #queue = new Map<number, HeldShard>()
  readonly #waiting: ((held: HeldShard | undefined) => void)[] = []
  /** Shards that were added while a lane worked on them. */
  readonly #again = new Set<HeldShard>()
  #closed = false

  add(held: HeldShard): void {
    if (held.busy) this.#again.add(held)
    if (this.#closed || !held.mayTurn) return
    const waiting = this.#waiting.shift()
    if (waiting === undefined) {
      this.#queue.set(held.shard, held)
    } else {
      held.busy = true
      waiting(held)
    }
  }

  /** Returns the next shard, marked as busy, or `undefined` when the queue is closed. */
  async next(): Promise<HeldShard | undefined> {
    for (const [shard, held] of this.#queue) {
      this.#queue.delete(shard)
      if (!held.mayTurn) continue
      held.busy = true
      return held
    }
    if (this.#closed) return undefined
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Must be called when the turn of a shard is over. @returns whether the shard was added meanwhile. */
  done(held: HeldShard): boolean {
    held.busy = false
    return this.#again.delete(held)
  }

  close(): void {
    this.#closed = true
    this.#queue.clear()
    for (const waiting of this.#waiting.splice(0)) waiting(undefined)
  }
}
