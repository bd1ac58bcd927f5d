/*
 * A receive on MySQL and MariaDB finds rows by plain reads, locks them by primary key, and changes them, in separate
 * statements. PostgreSQL finds, locks and changes rows in one statement.
 */
import { randomUUID } from 'node:crypto'
import { DatabaseUnavailableError } from '@txbox/core'
import type { ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import { SHARDS } from '@txbox/core/internal'
import { ALL_SHARDS, ReceiveBudget, firstLook, nextLook, shardRow, shuffled } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, hasNumber } from '../connection/errors.ts'
import { fill } from '../connection/literals.ts'
import { queueReceiveStatements } from './queue-receive-statements.ts'
import { QueueShard, type DuePosition, type Found, type Look, type Search } from './queue-shard.ts'
import { runBounded, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine, type ByEngine } from '../connection/server.ts'
import type { Run } from '../connection/short-transaction.ts'

const RECEIVING = 'receiving messages from a queue'

/** The maximum number of handled messages that a receive removes from a shard. */
const SWEPT_AT_ONCE = 1000

/** The first position at which a visible message can be: `due_at` at the epoch marks handled messages. */
const FIRST_DUE: DuePosition = { dueUs: 1n, place: 0n }

type Statements = ReturnType<typeof queueReceiveStatements>

/**
 * The shards that a receive has not searched to the end yet, each with the position from which the search continues.
 */
export type Positions = Map<number, DuePosition>

/** Searches shards, and advances their positions. */
type Visit = (search: Search, positions: Positions, look: number) => Promise<readonly QueueMessage[]>

/** Receives messages from one shard after another, until it has as many as the request asks for. */
export class QueueReceiver {
  readonly #statements: ByEngine<Statements>
  readonly #source: MysqlStatementRoot

  constructor(tables: Tables, source: MysqlStatementRoot) {
    this.#statements = byEngine(queueReceiveStatements, tables)
    this.#source = source
  }

  /** Looks at few messages first, and at more of them while none can be handed out. */
  async receive(request: ReceiveRequest, visit: Visit): Promise<readonly QueueMessage[]> {
    const search = { ...request, receipt: randomUUID() }
    const ready = shuffled(await this.#ready(request.queue))
    const positions: Positions = new Map(ready.map((shard) => [shard, FIRST_DUE]))
    let received: readonly QueueMessage[]
    let look = firstLook(request.limit)
    do {
      received = await visit(search, positions, look)
      look = nextLook(look)
    } while (received.length === 0 && positions.size > 0)
    return received
  }

  /** Visits each shard in a transaction of its own, so that a receiver keeps no shard locked longer than necessary. */
  async visitEach(search: Search, positions: Positions, look: number): Promise<readonly QueueMessage[]> {
    let failure: { readonly error: unknown } | undefined
    const received = await this.visitAll(search, positions, look, async (work) => {
      try {
        return await this.transaction(work)
      } catch (error) {
        failure ??= { error }
        // An error in one shard must not prevent the receive from the other shards, unless all of them would fail.
        return { messages: [], isLast: error instanceof DatabaseUnavailableError, next: undefined }
      }
    })
    // The messages received are committed, and must be returned. If the error persists, another receive reports it.
    if (failure !== undefined && received.length === 0) throw failure.error
    return received
  }

  /**
   * Visits shards until there are enough messages.
   *
   * @param inTransaction runs the visit of one shard in a transaction.
   */
  async visitAll(
    search: Search,
    positions: Positions,
    look: number,
    inTransaction: (work: (run: Run) => Promise<Found>) => Promise<Found>,
  ): Promise<readonly QueueMessage[]> {
    const received: QueueMessage[] = []
    const budget = new ReceiveBudget(search)
    for (const [shard, from] of [...positions]) {
      const how: Look = { ...budget.bounds, from, look }
      const found = await inTransaction((run) => this.#visit(run, shard, search, how))
      const { messages, buried, isLast, next } = found
      received.push(...messages)
      for (const { message, error } of buried ?? []) search.buried?.(message, error)
      for (const { payload, suspect } of messages) budget.spend(payload.length, suspect)
      if (next === undefined) positions.delete(shard)
      else positions.set(shard, next)
      if (isLast === true || budget.isSpent) break
    }
    return received
  }

  /**
   * Removes handled messages of a shard without receiving.
   *
   * @returns the number of messages removed; 0 if a receiver has locked the shard.
   */
  sweep(queue: string, number: number, limit: number): Promise<number> {
    return this.transaction(async (run) => {
      const shard = await this.shard(run, queue, number)
      return (await shard.lock()) ? (await shard.sweep(limit)).removed : 0
    })
  }

  /** Repeats the transaction after a conflict. */
  transaction<R>(work: (run: Run) => Promise<R>): Promise<R> {
    return runTogether(this.#source, RECEIVING, work)
  }

  async shard(run: Run, queue: string, shard: number): Promise<QueueShard> {
    return new QueueShard(await this.sql(), run, queue, shard)
  }

  async sql(): Promise<Statements> {
    return this.#statements[(await this.#source.server()).engine]
  }

  async #visit(run: Run, number: number, search: Search, how: Look): Promise<Found> {
    const shard = await this.shard(run, search.queue, number)
    if (!(await shard.lock())) return { messages: [], next: undefined }
    const { more: hasMore } = await shard.sweep(SWEPT_AT_ONCE)
    const found = await shard.take(search, how)
    return found.next === undefined && hasMore ? { ...found, next: how.from } : found
  }

  /** Returns the shards that have work. */
  async #ready(queue: string): Promise<readonly number[]> {
    const { shardRows, readyShard, ready } = await this.sql()
    const names = lockNames(queue)
    const branches = ALL_SHARDS.map((shard) => fill(readyShard, [shard, { utf8: queue }, shard]))
    const text = ready([fill(shardRows, [names]), ...branches])
    const { rows } = await runBounded(this.#source, RECEIVING, text, [])
    const found = rows.filter((row) => row['shard'] !== null).map((row) => columns.number(row, 'shard'))
    const locks = rows.find((row) => row['shard'] === null)
    // The rows are counted each time: if the row of a shard were missing, no receiver could get the messages of that
    // shard.
    if (found.length > 0 && columns.number(locks, 'locks') < SHARDS) await this.seed(queue)
    return found
  }

  /**
   * Adds the missing rows of shards. The statement is a transaction of its own and leaves no locks, because other
   * receivers skip a shard whose row is locked. If another receiver adds the rows at the same time, the statement fails
   * at once.
   */
  async seed(queue: string): Promise<void> {
    const names = lockNames(queue)
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

function lockNames(queue: string): readonly Buffer[] {
  return ALL_SHARDS.map((shard) => Buffer.from(shardRow(queue, shard)))
}
