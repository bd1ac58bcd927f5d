/*
 * A receive on MySQL and MariaDB finds by plain reads, locks by primary keys, and changes in statements of their own.
 * PostgreSQL finds, locks and changes in one statement.
 */
import { randomUUID } from 'node:crypto'
import type { ReceiveRequest, ReceivedMessage } from '@txbox/core'
import { SHARDS } from '@txbox/core/internal'
import { ALL_SHARDS, RECEIVED_BYTES, firstLook, nextLook, returnTime, shuffled } from '@txbox/sql'
import { columns } from './columns.ts'
import { DUPLICATE_KEY, hasNumber } from './errors.ts'
import { fill } from './literals.ts'
import type { queueReceiveStatementsByEngine } from './queue-receive-statements.ts'
import { shardRow } from './queue-rows.ts'
import { QueueShard, type DuePosition, type Found, type Look, type Search } from './queue-shard.ts'
import { runBounded, runTogether, type Source } from './run-alone.ts'
import type { Run } from './short-transaction.ts'

export const RECEIVING = 'receiving messages from a queue'

/** The maximum number of handled messages that a receive removes from a shard. */
const SWEPT_AT_ONCE = 1000

/** No message is visible before: the first instant of 1970 marks handled ones. */
const FIRST_DUE: DuePosition = { dueUs: 1n, place: 0n }

type Statements = ReturnType<typeof queueReceiveStatementsByEngine>

/** The shards that a receive has not searched to their ends, and where it goes on. */
export type Positions = Map<number, DuePosition>

/** Searches shards, and moves their positions. */
export type Visit = (
  search: Search,
  positions: Positions,
  look: number,
) => Promise<readonly ReceivedMessage[]>

/** Receives messages from shard to shard, until there are as many as asked for. */
export class QueueReceiver {
  readonly #statements: Statements
  readonly #source: Source

  constructor(statements: Statements, source: Source) {
    this.#statements = statements
    this.#source = source
  }

  /** Looks at few messages first, and at more as long as none of them can be handed out. */
  async receive(request: ReceiveRequest, visit: Visit): Promise<readonly ReceivedMessage[]> {
    const search = { ...request, receipt: randomUUID() }
    const ready = shuffled(await this.#ready(request.queue))
    const positions: Positions = new Map(ready.map((shard) => [shard, FIRST_DUE]))
    let received: readonly ReceivedMessage[]
    let look = firstLook(request.limit)
    do {
      received = await visit(search, positions, look)
      look = nextLook(look)
    } while (received.length === 0 && positions.size > 0)
    return received
  }

  /** Each visit of a shard is a transaction of its own, so that no receiver keeps a shard for longer than it needs. */
  async visitEach(search: Search, positions: Positions, look: number): Promise<readonly ReceivedMessage[]> {
    let received = 0
    return this.visitAll(search, positions, look, async (work) => {
      try {
        const found = await this.transaction(work)
        received += found.messages.length
        return found
      } catch (error) {
        if (received === 0) throw error
        // What was received is committed, and must be returned. If the error lasts, the next receive reports it.
        return { messages: [], alone: true, next: undefined }
      }
    })
  }

  /** @param inTransaction runs the visit of a shard. */
  async visitAll(
    search: Search,
    positions: Positions,
    look: number,
    inTransaction: (work: (run: Run) => Promise<Found>) => Promise<Found>,
  ): Promise<readonly ReceivedMessage[]> {
    const received: ReceivedMessage[] = []
    const returnAt = returnTime(search.visibilityTimeoutMs)
    let bytes = RECEIVED_BYTES
    for (const [shard, from] of [...positions]) {
      const how: Look = {
        limit: search.limit - received.length,
        bytes,
        alone: received.length === 0,
        from,
        look,
      }
      const { messages, alone, next } = await inTransaction((run) => this.#visit(run, shard, search, how))
      received.push(...messages)
      for (const { payload } of messages) bytes -= payload.length
      if (next === undefined) positions.delete(shard)
      else positions.set(shard, next)
      if (alone || received.length >= search.limit || bytes <= 0) break
      if (received.length > 0 && performance.now() > returnAt) break
    }
    return received
  }

  /** Removes handled messages of a shard without receiving. @returns how many; 0 if a receiver has locked the shard. */
  sweep(queue: string, number: number, limit: number): Promise<number> {
    return this.transaction(async (run) => {
      const shard = await this.shard(run, queue, number)
      return (await shard.lock()) ? (await shard.sweep(limit)).removed : 0
    })
  }

  /** Runs a transaction of several statements, again if there was a conflict. */
  transaction<R>(work: (run: Run) => Promise<R>): Promise<R> {
    return runTogether(this.#source, RECEIVING, work)
  }

  /** A shard, within a transaction. */
  async shard(run: Run, queue: string, shard: number): Promise<QueueShard> {
    return new QueueShard(await this.sql(), run, queue, shard)
  }

  async sql(): Promise<Statements['mysql']> {
    return this.#statements[(await this.#source.server()).engine]
  }

  async #visit(run: Run, number: number, search: Search, how: Look): Promise<Found> {
    const shard = await this.shard(run, search.queue, number)
    if (!(await shard.lock())) return { messages: [], alone: false, next: undefined }
    const { more: hasMore } = await shard.sweep(SWEPT_AT_ONCE)
    const found = await shard.take(search, how)
    return found.next === undefined && hasMore ? { ...found, next: how.from } : found
  }

  /** The shards that have something to do. */
  async #ready(queue: string): Promise<readonly number[]> {
    const { shardRows, readyShard, ready } = await this.sql()
    const names = ALL_SHARDS.map((shard) => shardRow(queue, shard))
    const branches = ALL_SHARDS.map((shard) => fill(readyShard, [shard, { utf8: queue }, shard]))
    const text = ready([fill(shardRows, [names]), ...branches])
    const { rows } = await runBounded(this.#source, RECEIVING, text, [])
    const found = rows.filter((row) => row['shard'] !== null).map((row) => columns.number(row, 'shard'))
    const locks = rows.find((row) => row['shard'] === null)
    // Counted each time: a row that is missing would keep the messages of its shard from all receivers.
    if (found.length > 0 && columns.number(locks, 'locks') < SHARDS) await this.#seed(names)
    return found
  }

  /**
   * Adds the rows that are missing, by a statement that keeps no lock: another receiver skips a shard whose row is locked. If
   * another receiver adds them at the same time, the statement fails at once.
   */
  async #seed(names: readonly Buffer[]): Promise<void> {
    const { knownShards, seedShard, seedShards } = await this.sql()
    const { rows } = await runBounded(this.#source, RECEIVING, knownShards, [names])
    const known = new Set(rows.map((row) => columns.key(row, 'name')))
    const missing = names.filter((name) => !known.has(name.toString()))
    if (missing.length === 0) return
    const text = seedShards(missing.map((name) => fill(seedShard, [name])))
    try {
      await runBounded(this.#source, RECEIVING, text, [])
    } catch (error) {
      if (!hasNumber(error, DUPLICATE_KEY)) throw error
    }
  }
}
