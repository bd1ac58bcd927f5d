/*
 * MySQL and MariaDB settle parked messages in short transactions on JSON lists, and need a branch for each key. PostgreSQL
 * settles in one statement, and takes lists as arrays.
 */
import type { BacklogMessage, Lease, ParkedSettlement, ReadLimits, RelayStore } from '@txbox/core/ports'
import { refused as refusalOf, type Row } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns, placeOf } from '../connection/columns.ts'
import { bytesOf, fill } from '../connection/literals.ts'
import { parkedStatements } from './parked-statements.ts'
import { MAX_BRANCHES, ParkedReads, rowNamedBy, type ParkedPlace } from './parked-reads.ts'
import { RelayOutbox } from './relay-outbox.ts'
import { LeaseNotes } from './lease-notes.ts'
import { assertNone } from './relay-settling.ts'
import { rowOf } from './relay-verdicts.ts'
import type { MysqlStatementRoot } from '../connection/run-alone.ts'

const HEAL_KEYS = 10_000

/**
 * The outbox table, the table of parked messages and the notes about crashes on MySQL and MariaDB, for the relay.
 * {@link RelayStore} documents the methods.
 */
export class MysqlRelayStore extends RelayOutbox implements RelayStore {
  readonly #parked: ReturnType<typeof parkedStatements>
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<number, Buffer>()
  readonly #reads: ParkedReads
  readonly #notes: LeaseNotes

  constructor(tables: Tables, source: MysqlStatementRoot) {
    super(tables, source)
    this.#parked = parkedStatements(tables)
    this.#reads = new ParkedReads(this.#parked, (text, values) => this.query(text, values))
    this.#notes = new LeaseNotes(source, this.settling, () => this.sql())
  }

  readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    return this.#reads.due(placeOfShard(shard), limits, (rows) => this.#follow(lease, rows))
  }

  readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined> {
    return this.#reads.suspect(placeOfShard(shard), limits)
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

  note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    return this.#notes.note(lease, inFlight)
  }

  survived(lease: Lease): Promise<void> {
    return this.#notes.survived(lease)
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
}

function placeOfShard(shard: number): ParkedPlace {
  return { shard, values: [shard] }
}
