/*
 * PostgreSQL finds, locks and changes the messages of several shards with a few statements; MySQL and MariaDB visit one
 * shard after the other.
 */
import type { ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import {
  NEVER_ANSWERED,
  ReceiveBudget,
  expiredFlights,
  isSuspect,
  queueRound,
  shardRow,
  type Bounds,
  type QueueCandidate,
  type QueueRound,
} from '@txbox/sql/stores'
import type { Statement } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { textArray } from '../connection/integer-arrays.ts'
import type { OwnTransaction } from '../connection/own-transaction.ts'
import type { queueReceiveStatements } from './queue-receive-statements.ts'
import { buriedOf, candidateOf, receivedOf } from './queue-rows.ts'

/** The maximum number of handled messages that a receive removes from a shard. */
const SWEPT_AT_ONCE = 1000

/** A receive, and the receipt that its messages get. */
export interface Search extends ReceiveRequest {
  readonly receipt: string
  /** The number of visible messages that a round examines. */
  readonly look: number
  /** Messages that the receive has already. */
  readonly received: readonly QueueMessage[]
}

export interface Visit {
  readonly received: readonly QueueMessage[]
  /** Whether messages were moved, so that another visit may find other messages. */
  readonly moved: boolean
  /** Whether rows of shards are missing. If so, nothing was visited. */
  readonly isUnseeded?: boolean
}

/** The result of visiting some shards in one transaction. */
export interface Round extends Visit {
  /** The shards that were locked. */
  readonly shards: readonly number[]
  /** Whether the other shards have no visible messages, except in shards that other receivers have locked. */
  readonly isLast: boolean
}

export class QueueShards {
  readonly #sql: ReturnType<typeof queueReceiveStatements>
  readonly #transaction: OwnTransaction
  readonly #queue: string

  constructor(
    statements: ReturnType<typeof queueReceiveStatements>,
    transaction: OwnTransaction,
    queue: string,
  ) {
    this.#sql = statements
    this.#transaction = transaction
    this.#queue = queue
  }

  /**
   * Receives visible messages from some of the shards, and commits. Takes three round trips if the library can send
   * several statements in one flight.
   *
   * @param atOnce the maximum number of shards to lock.
   */
  async receive(asked: readonly number[], atOnce: number, search: Search & Bounds): Promise<Round> {
    const { query, queryAll } = this.#transaction
    const names = asked.map((shard) => shardRow(this.#queue, shard))
    // A receive that cannot be repeated, and one that must be repeatable, survive a crash of the server.
    const mayBeLost = !search.remove && search.attempt === undefined
    const { rows } = await query(this.#sql.lockReady, [this.#queue, asked, names, atOnce, mayBeLost])
    const locked = rows.filter(({ shard }) => shard !== null)
    const shards = locked.map((row) => columns.number(row, 'shard'))
    const isLast = shards.length < atOnce
    const isUnseeded = columns.number(rows[0], 'locks') < asked.length
    if (shards.length === 0 || isUnseeded) return { received: [], moved: false, isUnseeded, shards, isLast }

    const handled = locked.filter((row) => columns.flag(row, 'handled'))
    const sweep = this.#sweep(
      handled.map((row) => columns.number(row, 'shard')),
      SWEPT_AT_ONCE,
    )
    const lookAtEach = Math.ceil(search.look / shards.length)
    const find = { text: this.#sql.candidates, values: [this.#queue, shards, lookAtEach] }
    const results = await queryAll(handled.length > 0 ? [sweep, find] : [find])
    const found = results.at(-1)!.rows.map((row) => ({
      shard: columns.number(row, 'shard'),
      candidate: candidateOf(row),
    }))
    const unlocked = await this.#unlocked(found.map(({ candidate }) => candidate))
    const rounds = roundsOf(shards, found, unlocked, search)
    const received = await this.#settle(search, rounds)
    const swept = handled.length > 0 ? columns.number(results[0]!.rows[0], 'swept') : 0
    const moved = swept > 0 || rounds.some(({ round }) => round.putBack.length > 0 || round.buried.length > 0)
    return { received, moved, shards, isLast }
  }

  /** Removes handled messages, and commits. @returns their number; 0 if a receiver has locked the shard. */
  async sweep(shard: number, limit: number): Promise<number> {
    const { query, commitWith } = this.#transaction
    const locks = await query(this.#sql.lockShard, [shardRow(this.#queue, shard)])
    if (locks.rows.length === 0) return 0
    const [swept] = await commitWith([this.#sweep([shard], limit)])
    return columns.number(swept!.rows[0], 'swept')
  }

  /**
   * Locks a shard until the transaction ends. Waits for a receiver that has locked it.
   *
   * @returns whether the row of the shard exists.
   */
  async lock(shard: number): Promise<boolean> {
    const { query } = this.#transaction
    return (await query(this.#sql.waitForShard, [shardRow(this.#queue, shard)])).rows.length > 0
  }

  /** Releases keys whose first message was removed. */
  async release(shard: number, keys: readonly string[]): Promise<void> {
    await this.#transaction.queryAll(this.#release(keys.map((key) => ({ shard, key }))))
  }

  #sweep(shards: readonly number[], limit: number): Statement {
    return { text: this.#sql.sweep, values: [this.#queue, shards, limit] }
  }

  #release(freed: readonly { readonly shard: number; readonly key: string }[]): Statement[] {
    if (freed.length === 0) return []
    const values = [this.#queue, freed.map(({ shard }) => shard), freed.map(({ key }) => key)]
    return [{ text: this.#sql.release, values }]
  }

  /** Locks the messages whose receipts have expired. @returns the places of those that could be locked. */
  async #unlocked(candidates: readonly QueueCandidate[]): Promise<ReadonlySet<string>> {
    const expired = expiredFlights(candidates)
    if (expired.length === 0) return new Set()
    const { rows } = await this.#transaction.query(this.#sql.lockExpired, [textArray(expired)])
    return new Set(rows.map((row) => columns.text(row, 'place')))
  }

  /** Writes the decisions of the rounds, commits, and returns the messages to hand out. */
  async #settle(
    { receipt, visibilityTimeoutMs, maxReceives, remove, buried: report }: Search,
    rounds: readonly ShardRound[],
  ): Promise<readonly QueueMessage[]> {
    const collect = <T>(part: (round: QueueRound) => readonly T[]): T[] =>
      rounds.flatMap(({ round }) => part(round))
    const putBack = collect((round) => round.putBack)
    const buried = collect((round) => round.buried)
    const taken = collect((round) => round.taken)
    const freed = rounds.flatMap(({ shard, round }) => {
      const gone = remove ? round.taken.flatMap(({ orderKey }) => orderKey ?? []) : []
      return [...round.released, ...gone].map((key) => ({ shard, key }))
    })
    const before: Statement[] = []
    // Put messages back before other messages of their keys are taken: at most one message of a key has a receipt.
    if (putBack.length > 0) before.push({ text: this.#sql.putBack, values: [textArray(putBack)] })
    if (buried.length > 0) before.push({ text: this.#sql.bury, values: [placesOf(buried), NEVER_ANSWERED] })
    const take = remove
      ? { text: this.#sql.takeAway, values: [placesOf(taken)] }
      : { text: this.#sql.take, values: [placesOf(taken), receipt, visibilityTimeoutMs] }
    const changes = [...before, ...(taken.length > 0 ? [take] : []), ...this.#release(freed)]
    if (changes.length === 0) return []
    const results = await this.#transaction.commitWith(changes)
    if (buried.length > 0) {
      for (const row of results[before.length - 1]!.rows) {
        report?.(buriedOf(row, maxReceives), columns.text(row, 'error'))
      }
    }
    if (taken.length === 0) return []
    const byPlace = new Map(results[before.length]!.rows.map((row) => [row['place'], row]))
    return taken.flatMap(({ place }) => {
      const row = byPlace.get(place)
      if (row === undefined) return []
      const message = receivedOf(row, receipt, maxReceives)
      return [remove ? { ...message, receives: message.receives + 1 } : message]
    })
  }
}

interface ShardRound {
  readonly shard: number
  readonly round: QueueRound
}

/** Decides shard by shard, until there are as many messages as the search asks for. */
function roundsOf(
  shards: readonly number[],
  found: readonly { readonly shard: number; readonly candidate: QueueCandidate }[],
  unlocked: ReadonlySet<string>,
  search: Search & Bounds,
): readonly ShardRound[] {
  const rounds: ShardRound[] = []
  const { maxReceives } = search
  const budget = new ReceiveBudget(search, search)
  for (const shard of shards) {
    const candidates = found.filter((entry) => entry.shard === shard).map(({ candidate }) => candidate)
    const unlockedHere = new Set(expiredFlights(candidates).filter((place) => unlocked.has(place)))
    const round = queueRound(candidates, unlockedHere, { ...budget.bounds, maxReceives })
    rounds.push({ shard, round })
    for (const candidate of round.taken) budget.spend(candidate.bytes, isSuspect(candidate, maxReceives))
    if (budget.hasSuspect) break
  }
  return rounds
}

function placesOf(candidates: readonly { readonly place: string }[]): string {
  return textArray(candidates.map(({ place }) => place))
}
