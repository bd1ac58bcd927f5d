import type { CollectionRecord, GarbageStore, Removal } from '@txbox/core/ports'
import { SHARDS } from '@txbox/core/internal'
import { ALL_SHARDS } from '../queue/queue-shards.ts'

export type RemovalByAge = Exclude<keyof GarbageStore, 'removeHandled' | 'record'>

const DOING: Readonly<Record<RemovalByAge, string>> = {
  removeExpiredClaims: 'removing expired claims',
  removeExpiredLeases: 'removing expired claims of dedup stores',
  removeDeadLetters: 'removing dead letters',
  removeQueueDeadLetters: 'removing dead letters of queues',
  removeLocalDeadLetters: 'removing dead letters of local consumers',
  removeRedrives: 'removing records of redrives',
  removeRemovals: 'removing records of ended subscriptions',
  removeBufferedDeadLetters: 'removing dead letters of version buffers',
}

interface GarbageBatch {
  readonly limit: number
  readonly from: string | undefined
  /** Absent for rows that themselves contain the end of their retention. */
  readonly retentionMs?: number
}

interface CollectedDatabase {
  remove(call: RemovalByAge, doing: string, batch: GarbageBatch): Promise<Removal>
  record(doing: string, collection: CollectionRecord): Promise<unknown>
  isTimeout(error: unknown): boolean
  nextQueue(doing: string, after: string): Promise<string | undefined>
  /** Returns the first of these shards in which handled messages have left rows. */
  handledShard(doing: string, queue: string, shards: readonly number[]): Promise<number | undefined>
  /** @returns the number of removed rows; 0 if a receiver has locked the shard. */
  sweep(queue: string, shard: number, limit: number): Promise<number>
}

export class SqlGarbageStore implements GarbageStore {
  readonly #database: CollectedDatabase

  constructor(database: CollectedDatabase) {
    this.#database = database
  }

  removeExpiredClaims(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    return this.#remove('removeExpiredClaims', { limit, from })
  }

  removeExpiredLeases(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    return this.#remove('removeExpiredLeases', { limit, from })
  }

  removeDeadLetters(...batch: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#removeOlder('removeDeadLetters', batch)
  }

  removeQueueDeadLetters(...batch: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#removeOlder('removeQueueDeadLetters', batch)
  }

  removeLocalDeadLetters(...batch: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#removeOlder('removeLocalDeadLetters', batch)
  }

  removeRemovals(...batch: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#removeOlder('removeRemovals', batch)
  }

  removeRedrives(...batch: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#removeOlder('removeRedrives', batch)
  }

  removeBufferedDeadLetters(...batch: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#removeOlder('removeBufferedDeadLetters', batch)
  }

  removeHandled(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    return this.#unlessTimedOut(this.#sweepNext(limit, from))
  }

  async record(collection: CollectionRecord): Promise<void> {
    await this.#database.record('recording what was collected', collection)
  }

  #removeOlder(call: RemovalByAge, [limit, from, retentionMs]: ByRetention): Promise<Removal | 'timed-out'> {
    return this.#remove(call, { limit, from, retentionMs })
  }

  #remove(call: RemovalByAge, batch: GarbageBatch): Promise<Removal | 'timed-out'> {
    return this.#unlessTimedOut(this.#database.remove(call, DOING[call], batch))
  }

  /** Sweeps the next shard after `from`. */
  async #sweepNext(limit: number, from: string | undefined): Promise<Removal> {
    const database = this.#database
    const doing = 'finding handled messages of queues'
    let [queue, after] = from === undefined ? ['', SHARDS] : (JSON.parse(from) as [string, number])
    for (;;) {
      const rest = ALL_SHARDS.filter((shard) => shard > after)
      const shard = rest.length === 0 ? undefined : await database.handledShard(doing, queue, rest)
      if (shard !== undefined) {
        const removed = await database.sweep(queue, shard, limit)
        // If the batch has removed as many rows as it may, the shard may have more, and is searched again.
        const next = JSON.stringify([queue, removed === limit ? shard - 1 : shard])
        return { removed, more: true, next }
      }
      const next = await database.nextQueue(doing, queue)
      if (next === undefined) return { removed: 0, more: false, next: undefined }
      ;[queue, after] = [next, -1]
    }
  }

  async #unlessTimedOut(removing: Promise<Removal>): Promise<Removal | 'timed-out'> {
    try {
      return await removing
    } catch (error) {
      if (this.#database.isTimeout(error)) return 'timed-out'
      throw error
    }
  }
}

type ByRetention = Parameters<GarbageStore['removeDeadLetters']>
