/*
 * A round is a transaction of several statements on every database. PostgreSQL finds and locks rows in one statement;
 * MySQL and MariaDB find rows first, and lock them afterwards.
 */
import { randomUUID } from 'node:crypto'
import { DatabaseUnavailableError, SchemaError } from '@txbox/core'
import type { ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import {
  ALL_SHARDS,
  RECEIVED_BYTES,
  ReceiveBudget,
  firstLook,
  nextLook,
  shardRow,
  shuffled,
} from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { oneLine } from '@txbox/core/internal'
import { columns } from '../connection/columns.ts'
import type { OwnTransaction } from '../connection/own-transaction.ts'
import { leaseStatements } from '../relay/lease-statements.ts'
import { UNKEYED_SHARD, queueReceiveStatements } from './queue-receive-statements.ts'
import { receivedOf } from './queue-rows.ts'
import { QueueShards, type Round, type Search, type Visit } from './queue-shards.ts'
import { runAtReadCommitted, runTogether } from '../connection/run-alone.ts'

const RECEIVING = 'receiving messages from a queue'

/**
 * The maximum number of shards that a receive locks at a time, so that other receivers can receive from the remaining
 * ones.
 */
const SHARDS_AT_ONCE = 4

export const QUEUE_SHARDS: readonly number[] = [...ALL_SHARDS, UNKEYED_SHARD]

type VisitShards = (search: Search) => Promise<Visit>

/** Receives messages from one shard after another, until it has as many as the request asks for. */
export class QueueReceiver {
  readonly #sql: ReturnType<typeof queueReceiveStatements>
  readonly #source: StatementRoot
  /** The statement that adds the missing rows of shards. */
  readonly #seed: string
  /** Whether the next receive begins with the shards. */
  #shardsFirst = false

  constructor(schema: string, source: StatementRoot) {
    this.#sql = queueReceiveStatements(schema)
    this.#seed = leaseStatements(schema).seed
    this.#source = source
  }

  /**
   * Receives in transactions of its own: messages without a key by one statement, and all others from their shards. A
   * receive that follows one with messages of a key begins with the shards, which include the shard of messages without
   * a key. So a queue whose messages all have keys needs no extra statement, and neither kind of message keeps a
   * receiver from the other kind.
   */
  async receiveAlone(request: ReceiveRequest): Promise<readonly QueueMessage[]> {
    const fromShards = (received: readonly QueueMessage[]): Promise<readonly QueueMessage[]> =>
      this.receive(request, (search) => this.visitEach(search), received)
    if (request.remove) return fromShards([])
    if (this.#shardsFirst) {
      const received = await fromShards([])
      this.#shardsFirst = !received.some(({ shard }) => shard === UNKEYED_SHARD)
      return received
    }
    const { received, more } = await this.#takeUnkeyed(request)
    this.#shardsFirst = more
    if (!more || received.length >= request.limit) return received
    return fromShards(received).catch((error: unknown) => {
      if (received.length === 0) throw error
      // These messages are committed, and must be returned. If the error persists, the next receive reports it.
      return received
    })
  }

  async #takeUnkeyed({ queue, limit, visibilityTimeoutMs, maxReceives }: ReceiveRequest): Promise<{
    readonly received: readonly QueueMessage[]
    readonly more: boolean
  }> {
    const receipt = randomUUID()
    const values = [queue, ALL_SHARDS, maxReceives, limit, receipt, visibilityTimeoutMs, RECEIVED_BYTES]
    const { rows } = await runAtReadCommitted(this.#source, RECEIVING, this.#sql.takeUnkeyed, values)
    const taken = rows
      .filter(({ place }) => place !== null)
      .map((row) => receivedOf(row, receipt, maxReceives))
    return { received: taken, more: columns.flag(rows[0], 'more') }
  }

  /**
   * Looks at few messages first, and at more of them while messages were moved but none was received.
   *
   * @param already messages that the receive has already.
   */
  async receive(
    request: ReceiveRequest,
    visit: VisitShards,
    already: readonly QueueMessage[] = [],
  ): Promise<readonly QueueMessage[]> {
    const receipt = randomUUID()
    let isSeeded = false
    for (let look = firstLook(request.limit); ; look = nextLook(look)) {
      const { received, moved, isUnseeded } = await visit({ ...request, receipt, look, received: already })
      if (isUnseeded === true) {
        if (isSeeded) throw unseeded(request.queue)
        const names = QUEUE_SHARDS.map((shard) => shardRow(request.queue, shard))
        await runAtReadCommitted(this.#source, RECEIVING, this.#seed, [names])
        isSeeded = true
      } else if (received.length > 0 || !moved) return received
    }
  }

  /** Runs each round in a transaction of its own, so that a receiver keeps no shard locked longer than necessary. */
  visitEach(search: Search): Promise<Visit> {
    return this.#visit(search, async (work, received) => {
      try {
        return await this.transaction((transaction) => work(transaction, SHARDS_AT_ONCE)).catch(
          (error: unknown) => {
            if (error instanceof DatabaseUnavailableError) throw error
            // An error in one shard must not prevent the receive from the other shards.
            return this.transaction((transaction) => work(transaction, 1))
          },
        )
      } catch (error) {
        if (received === 0) throw error
        // The messages received so far are committed, and must be returned. If the error persists, the next receive
        // reports it.
        return undefined
      }
    })
  }

  /** Visits all shards in one transaction. */
  visitWithin({ query, queryAll }: OwnTransaction, search: Search): Promise<Visit> {
    return this.#visit(search, (work) => work({ query, queryAll, commitWith: queryAll }, SHARDS_AT_ONCE))
  }

  async #visit(
    search: Search,
    run: (
      work: (transaction: OwnTransaction, shardsAtOnce: number) => Promise<Round>,
      received: number,
    ) => Promise<Round | undefined>,
  ): Promise<Visit> {
    const received: QueueMessage[] = []
    const budget = new ReceiveBudget(search)
    const add = (messages: readonly QueueMessage[]): void => {
      received.push(...messages)
      for (const { payload, suspect } of messages) budget.spend(payload.length, suspect)
    }
    add(search.received)
    let moved = false
    for (let rest = shuffled(QUEUE_SHARDS); rest.length > 0;) {
      const how = { ...search, ...budget.bounds }
      const round = await run(
        (transaction, shardsAtOnce) =>
          this.shards(transaction, search.queue).receive(rest, Math.min(shardsAtOnce, how.limit), how),
        received.length,
      )
      if (round === undefined) break
      if (round.isUnseeded === true && received.length === search.received.length) return round
      add(round.received)
      moved ||= round.moved
      if (round.isLast || budget.isSpent) break
      rest = rest.filter((shard) => !round.shards.includes(shard))
    }
    return { received, moved }
  }

  /** Removes handled messages. @returns their number; 0 if a receiver has locked the shard. */
  sweep(queue: string, shard: number, limit: number): Promise<number> {
    return this.transaction((transaction) => this.shards(transaction, queue).sweep(shard, limit))
  }

  /** Locks a shard until the transaction ends. Waits for a receiver that has locked it. */
  async lock(transaction: OwnTransaction, queue: string, shard: number): Promise<QueueShards> {
    const shards = this.shards(transaction, queue)
    if (await shards.lock(shard)) return shards
    await transaction.query(this.#seed, [[shardRow(queue, shard)]])
    if (!(await shards.lock(shard))) throw unseeded(queue)
    return shards
  }

  shards(transaction: OwnTransaction, queue: string): QueueShards {
    return new QueueShards(this.#sql, transaction, queue)
  }

  /** Runs a transaction of several statements, and repeats it after a conflict. */
  transaction<R>(work: (transaction: OwnTransaction) => Promise<R>): Promise<R> {
    return runTogether(this.#source, RECEIVING, work)
  }
}

function unseeded(queue: string): SchemaError {
  return new SchemaError(
    `Messages of the queue '${oneLine(queue)}' cannot be received: the rows of the table 'leases' that stand for its shards are missing, ` +
      'and cannot be added. Look for a trigger or a rule that drops them.',
  )
}
