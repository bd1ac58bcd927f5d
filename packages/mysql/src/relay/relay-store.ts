/*
 * MySQL and MariaDB settle parked messages in short transactions on JSON lists, and need a branch for each key. PostgreSQL
 * settles in one statement, and takes lists as arrays.
 */
import type { BacklogMessage, Lease, ParkedSettlement, ReadLimits, RelayStore } from '@txbox/core/ports'
import {
  dueMessages,
  inlineBytes,
  refused as refusalOf,
  toStamp,
  withoutLater,
  type Row,
} from '@txbox/sql/stores'
import { toMessages, toMessageRow, type MessageRow } from './backlog-message.ts'
import type { Tables } from '../connection/identifiers.ts'
import { columns, placeOf } from '../connection/columns.ts'
import { bytesOf, fill, json } from '../connection/literals.ts'
import { parkedStatements } from './parked-statements.ts'
import { RelayOutbox, fitting } from './relay-outbox.ts'
import { assertNone, fence } from './relay-settling.ts'
import { rowOf } from './relay-verdicts.ts'
import { runBounded, type MysqlStatementRoot } from '../connection/run-alone.ts'
import type { Run } from '../connection/short-transaction.ts'

/** The maximum number of branches of a statement, one for each released key. */
const MAX_BRANCHES = 100

const HEAL_KEYS = 10_000

/**
 * The outbox table, the table of parked messages and the notes about crashes on MySQL and MariaDB, for the relay.
 * {@link RelayStore} documents the methods.
 */
export class MysqlRelayStore extends RelayOutbox implements RelayStore {
  readonly #parked: ReturnType<typeof parkedStatements>
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<number, Buffer>()

  constructor(tables: Tables, source: MysqlStatementRoot) {
    super(tables, source)
    this.#parked = parkedStatements(tables)
  }

  async readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const { alone, onward } = await dueMessages(
      columns,
      () => this.query(this.#parked.due, [shard, shard, shard, limits.messages]),
      (rows) => this.#follow(lease, rows),
    )
    const stored: MessageRow[] = []
    if (alone.length > 0) stored.push(...(await this.#readAlone(alone, limits)))
    const branches = onward.slice(0, MAX_BRANCHES)
    if (branches.length > 0) stored.push(...(await this.#readOnward(shard, branches, limits)))
    return this.#toParked(stored, shard, limits)
  }

  async readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined> {
    const found = await this.query(this.#parked.findSuspect, [shard, shard])
    if (found.length === 0) return undefined
    const [suspect] = await this.#toParked(await this.#readAlone(found, limits), shard, limits)
    return suspect
  }

  async suspectParked(lease: Lease, shard: number, places: { from: bigint; to: bigint }): Promise<void> {
    await this.settling.settle(lease, async (run) => {
      const { rows } = await run(this.#parked.unsuspected, [places.from, places.to, shard])
      await this.settling.inPieces(run, this.#parked.suspect, rows.map(placeOf))
    })
  }

  async settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void> {
    const { accepted, refused, released } = settlement
    const { remove, keep, next, nextOfAll, release, remaining } = this.#parked
    const kept = await this.settling.settleTexts(lease, refused.map(refusalOf), async (run, texts) => {
      const removed = await this.settling.inPieces(run, remove, accepted.map(rowOf))
      await this.settling.inPieces(run, keep, texts)
      for (let from = 0; from < released.length; from += MAX_BRANCHES) {
        const branches = released
          .slice(from, from + MAX_BRANCHES)
          .map(({ key }) => fill(next, [shard, Buffer.from(key)]))
        const { rows } = await run(nextOfAll(branches), [])
        const waits = rows.filter((row) => columns.flag(row, 'waits'))
        await this.settling.inPieces(run, release, waits.map(placeOf))
      }
      return removed === accepted.length ? 0 : this.settling.countOf(run, remaining, accepted)
    })
    assertNone(kept, accepted.length, 'among the parked messages')
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const { note, isHeld } = await this.sql()
    const doing = 'recording messages in flight'
    const run: Run = (text, given) => this.settling.attempt(() => runBounded(this.source, doing, text, given))
    const { affected } = await run(note, [inFlight ?? null, ...fence(lease)])
    // Some drivers count only rows that have changed, not all rows that were found.
    return affected > 0 || (await run(isHeld, fence(lease))).rows.length > 0
  }

  async survived(lease: Lease): Promise<void> {
    const { survived } = await this.sql()
    await this.settling.attempt(() =>
      runBounded(this.source, 'resetting the crash count', survived, fence(lease)),
    )
  }

  async healKeys(lease: Lease, shard: number): Promise<number> {
    const { heads, release } = this.#parked
    return this.settling.settle(lease, async (run) => {
      const after = this.#healed.get(shard) ?? Buffer.alloc(0)
      const { rows } = await run(heads, [shard, after, HEAL_KEYS])
      if (rows.length < HEAL_KEYS) this.#healed.delete(shard)
      else this.#healed.set(shard, bytesOf(rows.at(-1)!['order_key']))
      const waits = rows.filter((row) => columns.flag(row, 'waits'))
      return this.settling.inPieces(run, release, waits.map(placeOf))
    })
  }

  async #follow(lease: Lease, rows: readonly Row[]): Promise<void> {
    const following = rows.map((row) => rowOf(rowNamedBy(row)))
    await this.settling.settle(lease, (run) => this.settling.inPieces(run, this.#parked.follow, following))
  }

  async #readAlone(rows: readonly Row[], limits: ReadLimits): Promise<readonly MessageRow[]> {
    const values = [inlineBytes(limits), json(rows.map(rowNamedBy).map(rowOf))]
    return (await this.query(this.#parked.readAlone, values)).map(toMessageRow)
  }

  /** Reads the next messages of each key, up to the first message that must wait longer. */
  async #readOnward(
    shard: number,
    heads: readonly Row[],
    limits: ReadLimits,
  ): Promise<readonly MessageRow[]> {
    const most = Math.ceil(limits.messages / heads.length)
    const branches = heads.map((row) => {
      const { seq, stamp } = rowNamedBy(row)
      const key = bytesOf(row['order_key'])
      return fill(this.#parked.readOnward, [inlineBytes(limits), shard, key, seq, seq, stamp, most])
    })
    const stored = (await this.query(this.#parked.readAllOnward(branches), [])).map(toMessageRow)
    return withoutLater(
      stored,
      ({ key }) => key,
      ({ row }) => columns.has(row, 'later'),
    )
  }

  #toParked(
    stored: readonly MessageRow[],
    shard: number,
    limits: ReadLimits,
  ): Promise<readonly BacklogMessage[]> {
    return toMessages(fitting(stored, limits), shard, async ({ seq, stamp }) => {
      const [row] = await this.query(this.#parked.readPayload, [seq, stamp])
      return row?.['payload']
    })
  }
}

function rowNamedBy(row: Row): { readonly seq: bigint; readonly stamp: number } {
  return { seq: columns.bigint(row, 'place'), stamp: toStamp(columns.number(row, 'stamp')) }
}
