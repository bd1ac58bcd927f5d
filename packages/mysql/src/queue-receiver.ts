/*
 * A receive on MySQL and MariaDB finds by plain reads, locks by primary keys, and changes in statements of their own.
 * PostgreSQL finds, locks and changes in one statement.
 */
import type { ReceiveRequest, ReceivedMessage } from '@txbox/core'
import { SHARDS } from '@txbox/core/internal'
import {
  NEVER_ANSWERED,
  expiredFlights,
  isSuspect,
  queueRound,
  type QueueCandidate,
  type QueueRound,
  type Row,
} from '@txbox/sql'
import { columns } from './columns.ts'
import { fill, type Utf8 } from './literals.ts'
import type { queueReceiveStatementsByEngine } from './queue-receive-statements.ts'
import {
  ANY_SIZE,
  json,
  keyOf,
  microseconds,
  placeOf,
  shardRow,
  toReceived,
  uuidBytes,
} from './queue-rows.ts'
import { runBounded, type Source } from './run-alone.ts'
import type { Run } from './short-transaction.ts'

/** The maximum number of keys in one statement: a key may have a thousand bytes, and a statement must fit into a packet. */
const KEYS_AT_ONCE = 100

const RECEIVING = 'receiving messages'

type Statements = ReturnType<typeof queueReceiveStatementsByEngine>

/** A position among the visible messages of a shard: those before it have been looked at. */
export interface DuePosition {
  readonly dueUs: bigint
  readonly place: bigint
}

/** No message is visible before: the first instant of 1970 marks handled ones. */
export const FIRST_DUE: DuePosition = { dueUs: 1n, place: 0n }

/** How a receive takes messages. */
export interface Taking extends Pick<
  ReceiveRequest,
  'queue' | 'visibilityTimeoutMs' | 'maxReceives' | 'remove'
> {
  readonly receipt: string
}

/** What a receive has found in a shard. */
export interface Found {
  readonly messages: readonly ReceivedMessage[]
  /** Whether the message is handed out alone. */
  readonly alone: boolean
  /** Where the next round goes on, if there may be more. */
  readonly next: DuePosition | undefined
}

interface Head {
  readonly first: string | undefined
  readonly waits: boolean
  readonly flight: string | undefined
  readonly live: boolean
}

/** The statements of a receive, each method within a transaction that {@link lockShard} has begun to use. */
export class QueueReceiver {
  readonly #statements: Statements
  readonly #source: Source

  constructor(statements: Statements, source: Source) {
    this.#statements = statements
    this.#source = source
  }

  /** The shards that have something to do. Outside a transaction. */
  async ready(queue: string): Promise<readonly number[]> {
    const { shardRows, readyShard, ready, seedShard, seedShards } = await this.sql()
    const names = shards.map((shard) => shardRow(queue, shard))
    const branches = shards.map((shard) => fill(readyShard, [shard, { utf8: queue }, shard]))
    const read = (text: string): Promise<{ readonly rows: readonly Row[] }> =>
      runBounded(this.#source, RECEIVING, text, [])
    const { rows } = await read(ready([fill(shardRows, [names]), ...branches]))
    const found = rows.filter((row) => row['shard'] !== null).map((row) => columns.number(row, 'shard'))
    const locks = rows.find((row) => row['shard'] === null)
    // Asked each time: a row that is missing would keep the messages of its shard from all receivers.
    if (found.length > 0 && columns.number(locks, 'locks') < SHARDS) {
      await read(seedShards(names.map((name) => fill(seedShard, [name]))))
    }
    return found
  }

  /** @returns whether no other receiver has the shard. */
  async lockShard(run: Run, queue: string, shard: number): Promise<boolean> {
    const { rows } = await run((await this.sql()).lockShard, [shardRow(queue, shard)])
    return rows.length > 0
  }

  /** Lets the keys of handled messages go on. */
  async sweep(run: Run, queue: string, shard: number): Promise<void> {
    const { findHandled, removeHandled } = await this.sql()
    const { rows: handled } = await run(findHandled, [{ utf8: queue }, shard])
    if (handled.length === 0) return
    // A transaction that holds an old receipt may have locked a row: the next receive removes it.
    const unlocked = await this.lock(run, handled.map(placeOf))
    if (unlocked.length > 0) await run(removeHandled, [json(unlocked.map(placeOf))])
    await this.release(run, queue, shard, handled.map(keyOf))
  }

  /** Takes visible messages of a shard. A round that finds nothing to take is followed by larger ones. */
  async takeFrom(
    run: Run,
    shard: number,
    taking: Taking,
    how: {
      readonly limit: number
      readonly alone: boolean
      readonly from: DuePosition
      readonly look: number
    },
  ): Promise<Found> {
    const { queue, maxReceives } = taking
    const { dueUs, place } = how.from
    const { findDue } = await this.sql()
    const { rows: due } = await run(findDue, [{ utf8: queue }, shard, dueUs, dueUs, place, how.look])
    if (due.length === 0) return { messages: [], alone: false, next: undefined }
    const candidates = await this.#candidates(run, queue, shard, due.map(placeOf))
    const unlocked = await this.#expired(run, candidates)
    const round = queueRound(candidates, new Set(unlocked.keys()), { ...how, maxReceives })
    await this.#apply(run, { queue, shard }, round, new Map([...unlocked, ...candidates.map(timeoutsOf)]))
    const messages = await this.#take(run, taking, round.taken)
    if (taking.remove)
      await this.release(
        run,
        queue,
        shard,
        round.taken.flatMap(({ orderKey }) => orderKey ?? []),
      )
    const last = due.at(-1)!
    return {
      messages,
      alone: round.taken.some(isSuspect),
      next:
        due.length < how.look
          ? undefined
          : { dueUs: columns.bigint(last, 'due_us'), place: columns.bigint(last, 'place') },
    }
  }

  /** Makes the first message of each key visible if it waits, unless one of the key has a receipt. */
  async release(
    run: Run,
    queue: string,
    shard: number,
    keys: readonly (string | undefined)[],
  ): Promise<void> {
    const heads = await this.#heads(run, queue, shard, keys)
    const waiting = [...heads.values()].flatMap(({ first, waits, flight }) =>
      waits && flight === undefined ? [first!] : [],
    )
    if (waiting.length > 0) await run((await this.sql()).release, [json(waiting)])
  }

  /** Locks rows, skips those that are locked already, and returns the others. */
  async lock(run: Run, places: readonly string[]): Promise<readonly Row[]> {
    const { rows } = await run((await this.sql()).lock, [json(places)])
    return rows
  }

  /** Reads messages that the transaction has locked, in the order of their places. */
  async read(run: Run, places: readonly string[], receipt: string): Promise<readonly ReceivedMessage[]> {
    const { rows } = await run((await this.sql()).read, [ANY_SIZE, json(places)])
    return rows.map((row) => toReceived(row, receipt))
  }

  async sql(): Promise<Statements['mysql']> {
    return this.#statements[(await this.#source.server()).engine]
  }

  /** Locks what is still visible, and asks what else there is of the keys. */
  async #candidates(
    run: Run,
    queue: string,
    shard: number,
    places: readonly string[],
  ): Promise<readonly QueueCandidate[]> {
    const locked = new Map((await this.lock(run, places)).map((row) => [placeOf(row), row] as const))
    const rows = places.map((place) => locked.get(place)).filter((row) => row !== undefined)
    const visible = rows.filter((row) => columns.flag(row, 'visible'))
    const heads = await this.#heads(run, queue, shard, visible.map(keyOf))
    return visible.map((row) => {
      const orderKey = keyOf(row)
      const head = orderKey === undefined ? undefined : heads.get(orderKey)
      return {
        place: placeOf(row),
        orderKey,
        attempts: columns.number(row, 'attempts'),
        timeouts: columns.number(row, 'timeouts') + (row['receipt'] === null ? 0 : 1),
        first: head?.first,
        flight: head?.flight,
        isFlightLive: head?.live === true,
      }
    })
  }

  async #heads(
    run: Run,
    queue: string,
    shard: number,
    keys: readonly (string | undefined)[],
  ): Promise<ReadonlyMap<string, Head>> {
    const { heads } = await this.sql()
    const all = [...new Set(keys)].filter((key) => key !== undefined)
    const found = new Map<string, Head>()
    const of: readonly [Utf8, number] = [{ utf8: queue }, shard]
    for (let from = 0; from < all.length; from += KEYS_AT_ONCE) {
      const asked = JSON.stringify(all.slice(from, from + KEYS_AT_ONCE))
      const { rows } = await run(heads, [...of, ...of, asked])
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
   * Locks messages whose receipts have expired, although their keys have another message to receive. One that a transaction
   * has settled without having committed is locked, and left out.
   *
   * @returns how often their visibility timeouts have passed.
   */
  async #expired(run: Run, candidates: readonly QueueCandidate[]): Promise<ReadonlyMap<string, number>> {
    const places = expiredFlights(candidates)
    if (places.length === 0) return new Map()
    const rows = (await this.lock(run, places)).filter(
      (row) => row['receipt'] !== null && columns.flag(row, 'visible'),
    )
    return new Map(rows.map((row) => [placeOf(row), columns.number(row, 'timeouts') + 1]))
  }

  async #apply(
    run: Run,
    { queue, shard }: { readonly queue: string; readonly shard: number },
    { buried, putBack, released }: QueueRound,
    timeouts: ReadonlyMap<string, number>,
  ): Promise<void> {
    const sql = await this.sql()
    if (buried.length > 0) await run(sql.buryAll, [json(buried.map(({ place }) => place)), NEVER_ANSWERED])
    if (putBack.length > 0) {
      await run(sql.putBack, [json(putBack.map((place) => `[${place},${timeouts.get(place)!}]`))])
    }
    await this.release(run, queue, shard, released)
  }

  async #take(
    run: Run,
    { receipt, visibilityTimeoutMs, remove }: Taking,
    taken: readonly QueueCandidate[],
  ): Promise<readonly ReceivedMessage[]> {
    if (taken.length === 0) return []
    const sql = await this.sql()
    const counted = json(taken.map(({ place, timeouts }) => `[${place},${timeouts}]`))
    await run(sql.take, [counted, uuidBytes(receipt), microseconds(visibilityTimeoutMs)])
    const places = taken.map(({ place }) => place)
    const messages = await this.read(run, places, receipt)
    if (remove) await run(sql.remove, [json(places)])
    return messages
  }
}

function timeoutsOf({ place, timeouts }: QueueCandidate): readonly [string, number] {
  return [place, timeouts]
}

const shards: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard)
