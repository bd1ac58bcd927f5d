/*
 * A round is a transaction of several statements on every database. PostgreSQL finds and locks in one statement; MySQL and
 * MariaDB find first.
 */
import { randomUUID } from 'node:crypto'
import type { ReceiveRequest, ReceivedMessage } from '@txbox/core'
import {
  ALL_SHARDS,
  NEVER_ANSWERED,
  expiredFlights,
  firstLook,
  nextLook,
  queueRound,
  repeatOnConflict,
  shuffled,
  type QueueRound,
  type Row,
  type Source,
} from '@txbox/sql'
import { columns } from './columns.ts'
import { errors } from './errors.ts'
import { textArray } from './integer-arrays.ts'
import { inOwnTransaction, type Query } from './own-transaction.ts'
import type { queueReceiveStatements } from './queue-receive-statements.ts'
import { candidateOf, receivedOf } from './queue-rows.ts'
import { runAtReadCommitted, serverTimeoutMs } from './run-alone.ts'

export const RECEIVING = 'receiving messages from a queue'

/** The maximum number of handled messages that a receive removes from a shard. */
const SWEPT_AT_ONCE = 1000

/** A receive, with the receipt that its messages get. */
export interface Search extends ReceiveRequest {
  readonly receipt: string
  /** How many visible messages of a shard are looked at. */
  readonly look: number
}

/** The result of the visit of a shard. */
export interface Visit {
  readonly received: readonly ReceivedMessage[]
  /** Whether the shard was free. */
  readonly locked: boolean
  /** Whether messages were moved, so that another visit may find others. */
  readonly moved: boolean
}

/** A shard that has something to do. */
export interface ReadyShard {
  readonly shard: number
  /** Whether it has handled messages, whose keys have to go on. Those that come later are found by the next receive. */
  readonly hasHandled: boolean
}

/** Visits shards and receives what is due there. */
export type VisitShards = (shards: readonly ReadyShard[], search: Search) => Promise<Visit>

/** Receives messages from shard to shard, until there are as many as asked for. */
export class QueueReceiver {
  readonly #sql: ReturnType<typeof queueReceiveStatements>
  readonly #source: Source
  /** Adds the rows that stand for the shards, where they are missing. */
  readonly #seed: string
  /** The queues whose shards are known to have such rows. */
  readonly #seeded = new Set<string>()

  constructor(statements: ReturnType<typeof queueReceiveStatements>, seed: string, source: Source) {
    this.#sql = statements
    this.#seed = seed
    this.#source = source
  }

  /**
   * Visits shards with something due, one after the other, until enough is received, or until nothing is due but what
   * other receivers are looking at.
   *
   * @param visit visits shards in a transaction.
   */
  async receive(request: ReceiveRequest, visit: VisitShards): Promise<readonly ReceivedMessage[]> {
    const receipt = randomUUID()
    for (let look = firstLook(request.limit); ; look = nextLook(look)) {
      const shards = shuffled(await this.#ready(request.queue))
      if (shards.length === 0 && request.attempt === undefined) return []
      if (!this.#seeded.has(request.queue)) await this.#addLocks(request.queue)
      const { received, locked, moved } = await visit(shards, { ...request, receipt, look })
      if (received.length > 0) return received
      // If every shard is locked, the locks may have been deleted.
      if (!locked) this.#seeded.delete(request.queue)
      if (shards.length === 0 || !moved) return []
    }
  }

  /** Each visit is a transaction of its own, so that no receiver keeps a shard for longer than it needs. */
  visitEach(shards: readonly ReadyShard[], search: Search): Promise<Visit> {
    return this.#visit(shards, search, async (work, received) => {
      try {
        return await this.transaction(work)
      } catch (error) {
        if (received === 0) throw error
        // What was received is committed, and must be returned. If the error lasts, the next receive reports it.
        return undefined
      }
    })
  }

  /** Visits all shards in one transaction. */
  visitWithin(query: Query, shards: readonly ReadyShard[], search: Search): Promise<Visit> {
    return this.#visit(shards, search, (work) => work(query))
  }

  async #visit(
    shards: readonly ReadyShard[],
    search: Search,
    run: (work: (query: Query) => Promise<Visit>, received: number) => Promise<Visit | undefined>,
  ): Promise<Visit> {
    const received: ReceivedMessage[] = []
    let [locked, moved] = [false, false]
    for (const shard of shards) {
      const rest = { ...search, limit: search.limit - received.length }
      const alone = received.length === 0
      const visit = await run((query) => this.#visitShard(query, shard, rest, alone), received.length)
      if (visit === undefined) break
      received.push(...visit.received)
      locked ||= visit.locked
      moved ||= visit.moved
      if (received.length >= search.limit || received[0]?.suspect === true) break
    }
    return { received, locked, moved }
  }

  /**
   * Receives what is due in a shard.
   *
   * @param alone nothing was received yet, so that a suspect may be.
   */
  async #visitShard(
    query: Query,
    { shard, hasHandled }: ReadyShard,
    search: Search,
    alone: boolean,
  ): Promise<Visit> {
    const { queue, limit, maxReceives, look } = search
    const locks = await query(this.#sql.lockShard, [shardLock(queue, shard)])
    if (locks.rows.length === 0) return { received: [], locked: false, moved: false }

    const swept = hasHandled ? await this.#sweep(query, queue, shard, SWEPT_AT_ONCE) : 0
    const candidates = (await query(this.#sql.candidates, [queue, shard, look])).rows.map(candidateOf)
    const expired = expiredFlights(candidates)
    const { rows } = expired.length === 0 ? NOTHING : await query(this.#sql.lockExpired, [textArray(expired)])
    const unlocked = new Set(rows.map((row) => row['place'] as string))
    const round = queueRound(candidates, unlocked, { limit, maxReceives, alone })
    const received = await this.#settle(query, shard, search, round)
    const moved = swept > 0 || round.putBack.length > 0 || round.buried.length > 0
    return { received, locked: true, moved }
  }

  /** Removes handled messages of a shard without receiving. @returns how many; 0 if a receiver has locked the shard. */
  sweep(queue: string, shard: number, limit: number): Promise<number> {
    return this.transaction(async (query) => {
      const locks = await query(this.#sql.lockShard, [shardLock(queue, shard)])
      if (locks.rows.length === 0) return 0
      return this.#sweep(query, queue, shard, limit)
    })
  }

  async #sweep(query: Query, queue: string, shard: number, limit: number): Promise<number> {
    const [swept] = (await query(this.#sql.sweep, [queue, shard, limit])).rows
    return columns.number(swept, 'swept')
  }

  /** Lets the keys whose first message was removed go on. */
  async release(query: Query, queue: string, shard: number, keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await query(this.#sql.release, [queue, shard, keys])
  }

  /** Locks a shard for the rest of the transaction, and waits for a receiver that has it. */
  async lock(query: Query, queue: string, shard: number): Promise<void> {
    const name = shardLock(queue, shard)
    if ((await query(this.#sql.waitForShard, [name])).rows.length > 0) return
    await query(this.#seed, [[name]])
    await query(this.#sql.waitForShard, [name])
  }

  /** Runs a transaction of several statements, again if there was a conflict. */
  transaction<R>(work: (query: Query) => Promise<R>): Promise<R> {
    return repeatOnConflict(errors, RECEIVING, () =>
      inOwnTransaction(this.#source, serverTimeoutMs(this.#source), work),
    )
  }

  async #addLocks(queue: string): Promise<void> {
    const names = ALL_SHARDS.map((shard) => shardLock(queue, shard))
    await runAtReadCommitted(this.#source, RECEIVING, this.#seed, [names])
    this.#seeded.add(queue)
  }

  async #ready(queue: string): Promise<ReadyShard[]> {
    const { rows } = await runAtReadCommitted(this.#source, RECEIVING, this.#sql.ready, [queue, ALL_SHARDS])
    return rows.map((row) => ({
      shard: columns.number(row, 'shard'),
      hasHandled: columns.flag(row, 'handled'),
    }))
  }

  /** Changes the rows of a round, and returns the messages that are handed out. */
  async #settle(
    query: Query,
    shard: number,
    search: Search,
    { taken, buried, putBack, released }: QueueRound,
  ): Promise<readonly ReceivedMessage[]> {
    const { queue, receipt, visibilityTimeoutMs, remove } = search
    // Before others of their keys are taken: of a key at most one message has a receipt.
    if (putBack.length > 0) await query(this.#sql.putBack, [textArray(putBack)])
    if (buried.length > 0) await query(this.#sql.bury, [placesOf(buried), NEVER_ANSWERED])
    const { rows } =
      taken.length === 0
        ? NOTHING
        : remove
          ? await query(this.#sql.takeAway, [placesOf(taken)])
          : await query(this.#sql.take, [placesOf(taken), receipt, visibilityTimeoutMs])
    const gone = remove ? taken.flatMap(({ orderKey }) => orderKey ?? []) : []
    await this.release(query, queue, shard, [...released, ...gone])
    const byPlace = new Map(rows.map((row) => [row['place'], row]))
    return taken.flatMap(({ place }) => {
      const row = byPlace.get(place)
      if (row === undefined) return []
      const message = receivedOf(row, receipt)
      return [remove ? { ...message, receives: message.receives + 1 } : message]
    })
  }
}

const NOTHING: { readonly rows: readonly Row[] } = { rows: [] }

/** The name of the row that stands for a shard of a queue. */
function shardLock(queue: string, shard: number): string {
  return `queue/${queue}/${String(shard).padStart(2, '0')}`
}

function placesOf(candidates: readonly { readonly place: string }[]): string {
  return textArray(candidates.map(({ place }) => place))
}
