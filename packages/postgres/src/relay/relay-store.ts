/*
 * PostgreSQL settles parked messages in one statement, and takes lists as arrays. MySQL and MariaDB need short
 * transactions of several statements on JSON lists.
 */
import type { BacklogMessage, Lease, ParkedSettlement, ReadLimits, RelayStore } from '@txbox/core/ports'
import { dueMessages, inlineBytes, refused as verdictOf, withoutLater, type Row } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { stampOf, toMessages } from './backlog-message.ts'
import { columns } from '../connection/columns.ts'
import { rowsOf, textArray, textStamps } from '../connection/integer-arrays.ts'
import { parkedStatements } from './parked-statements.ts'
import { RelayOutbox, assertNone, fence } from './relay-outbox.ts'
import { columnsOf } from './relay-verdicts.ts'
import { runAtReadCommitted } from '../connection/run-alone.ts'

/** The number of keys that are examined at a time. */
const HEAL_KEYS = 10_000

/** The outbox table, the table of parked messages and the notes about crashes. */
export class PostgresRelayStore extends RelayOutbox implements RelayStore {
  readonly #parked: ReturnType<typeof parkedStatements>
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<number, string>()

  constructor(schema: string, source: StatementRoot) {
    super(schema, source)
    this.#parked = parkedStatements(schema)
  }

  async readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const { alone, onward } = await dueMessages(
      columns,
      () => this.query(this.#parked.due, [shard, limits.messages]),
      (rows) => this.attemptFenced(lease, this.#parked.follow, [...fence(lease), ...placesOf(rows)]),
    )
    const rows: Row[] = []
    if (alone.length > 0) {
      rows.push(...(await this.query(this.#parked.readAlone, [...placesOf(alone), inlineBytes(limits)])))
    }
    if (onward.length > 0) rows.push(...(await this.#readOnward(shard, onward, limits)))
    return this.#toParked(rows, shard, limits)
  }

  async readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined> {
    const rows = await this.query(this.#parked.readSuspect, [shard, limits.bytes])
    const [suspect] = await this.#toParked(rows, shard, limits)
    return suspect
  }

  async suspectParked(lease: Lease, shard: number, places: { from: bigint; to: bigint }): Promise<void> {
    const values = [...fence(lease), shard, String(places.from), String(places.to)]
    await this.attemptFenced(lease, this.#parked.suspect, values)
  }

  async settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void> {
    const { accepted, refused, released } = settlement
    const row = await this.settleVerdicts(lease, this.#parked.settle, (ascii) => [
      ...[...fence(lease), ...rowsOf(accepted)],
      ...columnsOf(refused.map(verdictOf), ascii),
      ...[released.map(({ key }) => key), shard],
    ])
    const done = new Set(
      ['settled', 'kept'].flatMap((name) => columns.optionalText(row, name)?.split(',') ?? []),
    )
    const rows = [...accepted, ...refused.map((refusal) => refusal.row)]
    const missing = rows.filter(({ seq }) => !done.has(String(seq)))
    if (missing.length === 0) return
    const [found] = await this.query(this.#parked.remaining, rowsOf(missing))
    assertNone(columns.number(found, 'remaining'), missing.length, 'among the parked messages')
  }

  async healKeys(lease: Lease, shard: number): Promise<number> {
    const after = this.#healed.get(shard) ?? ''
    const values = [...fence(lease), shard, after, HEAL_KEYS]
    const row = await this.attemptFenced(lease, this.#parked.heal, values)
    if (columns.number(row, 'keys') < HEAL_KEYS) this.#healed.delete(shard)
    else this.#healed.set(shard, columns.text(row, 'last'))
    return columns.number(row, 'healed')
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const values = [...fence(lease), inFlight ?? null]
    const doing = 'recording messages in flight'
    const { rows } = await runAtReadCommitted(this.source, doing, this.sql.note, values)
    return rows.length > 0
  }

  async survived(lease: Lease): Promise<void> {
    await runAtReadCommitted(this.source, 'resetting the crash count', this.sql.survived, fence(lease))
  }

  /** Reads the next messages of each key, up to the first message that must wait longer. */
  async #readOnward(shard: number, heads: readonly Row[], limits: ReadLimits): Promise<readonly Row[]> {
    const [places, stamps] = placesOf(heads)
    const most = Math.ceil(limits.messages / heads.length)
    const keys = heads.map((row) => columns.text(row, 'order_key'))
    const values = [shard, keys, places, most, inlineBytes(limits), stamps]
    return withoutLater(
      await this.query(this.#parked.readOnward, values),
      (row) => columns.optionalText(row, 'key'),
      (row) => columns.has(row, 'later'),
    )
  }

  #toParked(rows: readonly Row[], shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    return toMessages(rows, shard, limits.bytes, (places, stamps) =>
      this.query(this.#parked.readPayloads, [textArray(places), textStamps(stamps)]),
    )
  }
}

function placesOf(rows: readonly Row[]): [places: string, stamps: string] {
  return [textArray(rows.map((row) => columns.text(row, 'place'))), textStamps(rows.map(stampOf))]
}
