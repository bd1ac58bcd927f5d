/*
 * A round of a receive on MySQL and MariaDB finds rows by plain reads, locks them by primary key, and changes them, in
 * separate statements. PostgreSQL finds, locks and changes rows in one statement.
 */
import type { ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import {
  NEVER_ANSWERED,
  expiredFlights,
  queueRound,
  shardRow,
  type Bounds,
  type QueueCandidate,
  type QueueRound,
  type Row,
} from '@txbox/sql/stores'
import { columns, placeOf } from '../connection/columns.ts'
import { json, microseconds, type Value } from '../connection/literals.ts'
import { SIZED, type queueReceiveStatements } from './queue-receive-statements.ts'
import { keyOf, lockRows, readBuried, readMessages, uuidBytes, type Buried } from './queue-rows.ts'
import type { Run } from '../connection/short-transaction.ts'

/** The maximum number of keys in one statement: a key may have a thousand bytes, and a statement must fit into a packet. */
const KEYS_AT_ONCE = 100

/** A position among the visible messages of a shard. The messages before it have been examined. */
export interface DuePosition {
  readonly dueUs: bigint
  readonly place: bigint
}

/** A receive, and the receipt that its messages get. */
export interface Search extends ReceiveRequest {
  readonly receipt: string
}

/** The limits of a round, and where it starts. */
export interface Look extends Bounds {
  readonly from: DuePosition
  /** The number of visible messages that the round examines. */
  readonly look: number
}

export interface Found {
  readonly messages: readonly QueueMessage[]
  /** Messages that have become dead letters. Read only if the receive reports them. */
  readonly buried?: readonly Buried[] | undefined
  /** Whether the receive ends with this round, because every other one would fail. */
  readonly isLast?: boolean
  /** The position from which the next round continues; `undefined` if the shard has no more visible messages. */
  readonly next: DuePosition | undefined
}

/** The first message of a key, and the message that has a receipt. */
interface Head {
  readonly first: string | undefined
  readonly waits: boolean
  readonly flight: string | undefined
  readonly live: boolean
}

/** A shard of a queue, within a transaction. */
export class QueueShard {
  readonly #sql: ReturnType<typeof queueReceiveStatements>
  readonly #run: Run
  /** The queue and the number of the shard, as values for statements. */
  readonly #shard: readonly Value[]
  readonly #name: Buffer

  constructor(sql: ReturnType<typeof queueReceiveStatements>, run: Run, queue: string, shard: number) {
    this.#sql = sql
    this.#run = run
    this.#shard = [{ utf8: queue }, shard]
    this.#name = Buffer.from(shardRow(queue, shard))
  }

  /** Locks the shard until the transaction ends. @returns false if another receiver has locked the shard. */
  async lock(): Promise<boolean> {
    return (await this.#run(this.#sql.lockShard, [this.#name])).rows.length > 0
  }

  /** Like `lock`, but waits for other receivers. @returns false if the row of the shard does not exist. */
  async wait(): Promise<boolean> {
    return (await this.#run(this.#sql.waitForShard, [this.#name])).rows.length > 0
  }

  /** Removes handled messages, and releases their keys. */
  async sweep(limit: number): Promise<{ readonly removed: number; readonly more: boolean }> {
    const { rows: handled } = await this.#run(this.#sql.findHandled, [...this.#shard, limit])
    if (handled.length === 0) return { removed: 0, more: false }
    const { locked, unlocked } = await this.#release(handled.map(keyOf), handled.map(placeOf))
    // The row of a key that could not be released stays, and so does a row that is locked itself: a later receive finds
    // both again.
    const removed = handled.filter((row) => unlocked.has(placeOf(row)) && !locked.has(keyOf(row)!))
    if (removed.length > 0) await this.#run(this.#sql.removeHandled, [json(removed.map(placeOf))])
    return { removed: removed.length, more: handled.length === limit && removed.length > 0 }
  }

  async take(search: Search, how: Look): Promise<Found> {
    const { dueUs, place } = how.from
    const { rows: due } = await this.#run(this.#sql.findDue, [...this.#shard, dueUs, dueUs, place, how.look])
    const last = due.at(-1)
    if (last === undefined) return { messages: [], next: undefined }

    const candidates = await this.#candidates(due.map(placeOf))
    const unlocked = await this.#lockExpired(candidates)
    const { maxReceives } = search
    const round = queueRound(candidates, new Set(unlocked.keys()), { ...how, maxReceives })
    const buried =
      search.buried &&
      (await readBuried(
        this.#run,
        this.#sql,
        round.buried.map(({ place }) => place),
        maxReceives,
      ))
    await this.#settle(
      round,
      new Map([...unlocked, ...candidates.map(({ place, timeouts }) => [place, timeouts] as const)]),
    )
    const messages = await this.#handOut(search, await this.#fitting(round.taken, how))
    // Messages that were released just now are visible, and come after the last one found.
    const hasMore = due.length === how.look || round.released.length > 0
    return {
      messages,
      buried,
      next: round.hasMoreToBury
        ? how.from
        : hasMore
          ? { dueUs: columns.bigint(last, 'due_us'), place: columns.bigint(last, 'place') }
          : undefined,
    }
  }

  /**
   * Makes the first message of each key visible if that message waits, unless a message of the key has a receipt. A key
   * that cannot be released now gets a row of a handled message, so that a later receive releases the key.
   */
  async release(keys: readonly (string | undefined)[]): Promise<void> {
    const { locked } = await this.#release(keys, [])
    for (const key of locked) await this.#run(this.#sql.free, [...this.#shard, Buffer.from(key, 'hex')])
  }

  /**
   * Releases keys, without waiting for a transaction that has locked a message: one at REPEATABLE READ that used an old
   * receipt locks the message until it ends.
   *
   * @param handled the places of handled messages, which are locked as well.
   * @returns the keys whose first message another transaction has locked, and the places that this one has locked.
   */
  async #release(
    keys: readonly (string | undefined)[],
    handled: readonly string[],
  ): Promise<{ readonly locked: ReadonlySet<string>; readonly unlocked: ReadonlySet<string> }> {
    const waiting = [...(await this.#heads(keys))].flatMap(([key, { first, waits, flight }]) =>
      waits && flight === undefined ? [{ key, place: first! }] : [],
    )
    const asked = [...handled, ...waiting.map(({ place }) => place)]
    if (asked.length === 0) return { locked: new Set(), unlocked: new Set() }
    const { rows } = await this.#run(this.#sql.hold, [json(asked)])
    const unlocked = new Set(rows.map(placeOf))
    const released = waiting.filter(({ place }) => unlocked.has(place)).map(({ place }) => place)
    if (released.length > 0) await this.#run(this.#sql.release, [json(released)])
    const locked = waiting.filter(({ place }) => !unlocked.has(place))
    return { locked: new Set(locked.map(({ key }) => key)), unlocked }
  }

  /** Locks the messages that are still visible, and reads the state of their keys. */
  async #candidates(places: readonly string[]): Promise<readonly QueueCandidate[]> {
    const locked = new Map((await this.#lockRows(places)).map((row) => [placeOf(row), row] as const))
    const visible = places
      .map((place) => locked.get(place))
      .filter((row) => row !== undefined && columns.flag(row, 'visible'))
      .map((row) => row!)
    const heads = await this.#heads(visible.map(keyOf))
    return visible.map((row) => {
      const orderKey = keyOf(row)
      const head = orderKey === undefined ? undefined : heads.get(orderKey)
      return {
        place: placeOf(row),
        orderKey,
        receives: columns.number(row, 'attempts'),
        timeouts: timeoutsSoFar(row),
        first: head?.first,
        flight: head?.flight,
        isFlightLive: head?.live === true,
        bytes: Number(columns.optionalText(row, 'bytes') ?? 0),
      }
    })
  }

  async #heads(keys: readonly (string | undefined)[]): Promise<ReadonlyMap<string, Head>> {
    const all = [...new Set(keys)].filter((key) => key !== undefined)
    const found = new Map<string, Head>()
    for (let from = 0; from < all.length; from += KEYS_AT_ONCE) {
      const asked = JSON.stringify(all.slice(from, from + KEYS_AT_ONCE))
      const { rows } = await this.#run(this.#sql.heads, [...this.#shard, ...this.#shard, asked])
      for (const row of rows) {
        found.set(columns.text(row, 'order_key'), {
          first: columns.optionalText(row, 'first'),
          waits: columns.flag(row, 'waits'),
          flight: columns.optionalText(row, 'flight'),
          live: columns.flag(row, 'live'),
        })
      }
    }
    return found
  }

  /**
   * Locks the messages whose receipts have expired, and whose keys have another message to be received first. A message
   * that an open transaction has settled is locked, and is left out.
   *
   * @returns by place, how often the visibility timeout of each message has passed.
   */
  async #lockExpired(candidates: readonly QueueCandidate[]): Promise<ReadonlyMap<string, number>> {
    const places = expiredFlights(candidates)
    if (places.length === 0) return new Map()
    // A message that was settled in the meantime is handled, and must not be put back.
    const rows = (await this.#lockRows(places)).filter(
      (row) => row['receipt'] !== null && columns.flag(row, 'visible'),
    )
    return new Map(rows.map((row) => [placeOf(row), timeoutsSoFar(row)]))
  }

  /**
   * Limits the messages to those whose payloads fit into the limit in bytes. The sizes of the first candidates are
   * known; for the others, sizes are read only as far as they may still fit.
   */
  async #fitting(
    taken: readonly QueueCandidate[],
    { bytes, alone }: Bounds,
  ): Promise<readonly QueueCandidate[]> {
    const sizes = new Map(taken.flatMap(({ place, bytes }) => (bytes > 0 ? [[place, bytes] as const] : [])))
    let sum = 0
    for (const [n, { place }] of taken.entries()) {
      if (!sizes.has(place)) {
        const average = n === 0 ? bytes / SIZED : Math.max(1, sum / n)
        const next = taken.slice(n, n + Math.max(1, Math.floor((bytes - sum) / average)))
        const { rows } = await this.#run(this.#sql.sizes, [json(next.map((candidate) => candidate.place))])
        for (const row of rows) sizes.set(placeOf(row), columns.number(row, 'bytes'))
      }
      sum += sizes.get(place) ?? 0
      if (sum > bytes) return taken.slice(0, alone ? Math.max(n, 1) : n)
    }
    return taken
  }

  async #settle(
    { buried, putBack, released }: QueueRound,
    timeouts: ReadonlyMap<string, number>,
  ): Promise<void> {
    if (buried.length > 0) {
      await this.#run(this.#sql.buryAll, [json(buried.map(({ place }) => place)), NEVER_ANSWERED])
    }
    if (putBack.length > 0) {
      const counted = putBack.map((place) => `[${place},${timeouts.get(place)!}]`)
      await this.#run(this.#sql.putBack, [json(counted)])
    }
    await this.release(released)
  }

  async #handOut(
    { receipt, visibilityTimeoutMs, maxReceives, remove }: Search,
    taken: readonly QueueCandidate[],
  ): Promise<readonly QueueMessage[]> {
    if (taken.length === 0) return []
    const counted = json(taken.map(({ place, timeouts }) => `[${place},${timeouts}]`))
    await this.#run(this.#sql.take, [counted, uuidBytes(receipt), microseconds(visibilityTimeoutMs)])
    const places = taken.map(({ place }) => place)
    const messages = await readMessages(this.#run, this.#sql, places, receipt, maxReceives)
    if (remove) {
      await this.#run(this.#sql.remove, [json(places)])
      await this.release(taken.map(({ orderKey }) => orderKey))
    }
    return messages
  }

  #lockRows(places: readonly string[]): Promise<readonly Row[]> {
    return lockRows(this.#run, this.#sql, places)
  }
}

/**
 * How often in a row the visibility timeout has passed without a settlement, including the current receive if the
 * message has a receipt.
 */
function timeoutsSoFar(row: Row): number {
  return columns.number(row, 'timeouts') + (row['receipt'] === null ? 0 : 1)
}
