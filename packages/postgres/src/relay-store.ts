/*
 * PostgreSQL settles parked messages in one statement, and takes lists as arrays. MySQL and MariaDB need short
 * transactions of several statements on JSON lists.
 */
import type { BacklogMessage, Lease, ParkedSettlement, ReadLimits, RelayStore } from '@txbox/core'
import { inlineBytes, refused as verdictOf, withoutLater, type Row, type Source } from '@txbox/sql'
import { stampOf, toMessages } from './backlog-message.ts'
import { textArray, textStamps } from './integer-arrays.ts'
import type { parkedStatements } from './parked-statements.ts'
import { RelayOutbox, assertNone, fence } from './relay-outbox.ts'
import type { relayStatements } from './relay-statements.ts'
import { columnsOf, rowsOf } from './relay-verdicts.ts'
import { runAtReadCommitted } from './run-alone.ts'

/** The number of keys that are examined at a time. */
const HEAL_KEYS = 10_000

/**
 * The outbox table, the table of parked messages and the notes about crashes on PostgreSQL, for the relay.
 * {@link RelayStore} documents the methods.
 */
export class PostgresRelayStore extends RelayOutbox implements RelayStore {
  readonly #parked: ReturnType<typeof parkedStatements>
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<number, string>()

  constructor(
    statements: ReturnType<typeof relayStatements>,
    parked: ReturnType<typeof parkedStatements>,
    source: Source,
  ) {
    super(statements, source)
    this.#parked = parked
  }

  async readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const heads = await this.#heads(lease, shard, limits)
    // A message that was never tried was released after its predecessor, so the messages behind it may be published
    // with it.
    const onward = heads.filter((row) => row['order_key'] !== null && row['attempts'] === '0')
    const alone = heads.filter((row) => !onward.includes(row))
    const mostBytes = inlineBytes(limits)
    const rows = [
      ...(alone.length === 0
        ? []
        : await this.query(this.#parked.readAlone, [...placesOf(alone), mostBytes])),
      ...(onward.length === 0 ? [] : onwardOf(await this.#readOnward(shard, onward, limits))),
    ]
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
    const done = new Set([...numbersOf(row['settled']), ...numbersOf(row['kept'])])
    const rows = [...accepted, ...refused.map((refusal) => refusal.row)]
    const missing = rows.filter(({ seq }) => !done.has(String(seq)))
    if (missing.length === 0) return
    const [found] = await this.query(this.#parked.remaining, rowsOf(missing))
    assertNone(Number(found?.['remaining']), missing.length, 'among the parked messages')
  }

  async healKeys(lease: Lease, shard: number): Promise<number> {
    const after = this.#healed.get(shard) ?? ''
    const values = [...fence(lease), shard, after, HEAL_KEYS]
    const { healed, keys, last } = await this.attemptFenced(lease, this.#parked.heal, values)
    if (Number(keys) < HEAL_KEYS) this.#healed.delete(shard)
    else this.#healed.set(shard, last as string)
    return Number(healed)
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const values = [...fence(lease), inFlight ?? null]
    const { rows } = await runAtReadCommitted(
      this.source,
      'recording messages in flight',
      this.sql.note,
      values,
    )
    return rows.length > 0
  }

  async survived(lease: Lease): Promise<void> {
    await runAtReadCommitted(this.source, 'resetting the crash count', this.sql.survived, fence(lease))
  }

  /**
   * Finds messages that are due and come first in their keys. Other due messages are put back behind their
   * predecessors.
   */
  async #heads(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly Row[]> {
    for (;;) {
      const due = await this.query(this.#parked.due, [shard, limits.messages])
      const heads = due.filter((row) => row['first'] === null || row['first'] === row['place'])
      if (heads.length === due.length) return due
      const following = due.filter((row) => !heads.includes(row))
      await this.attemptFenced(lease, this.#parked.follow, [...fence(lease), ...placesOf(following)])
      if (heads.length > 0) return heads
    }
  }

  #readOnward(shard: number, heads: readonly Row[], limits: ReadLimits): Promise<readonly Row[]> {
    const [places, stamps] = placesOf(heads)
    const most = Math.ceil(limits.messages / heads.length)
    const keys = heads.map((row) => row['order_key'])
    return this.query(this.#parked.readOnward, [shard, keys, places, most, inlineBytes(limits), stamps])
  }

  #toParked(rows: readonly Row[], shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    return toMessages(rows, shard, limits.bytes, (places, stamps) =>
      this.query(this.#parked.readPayloads, [textArray(places), textStamps(stamps)]),
    )
  }
}

function placesOf(rows: readonly Row[]): [places: string, stamps: string] {
  return [textArray(rows.map((row) => row['place'] as string)), textStamps(rows.map(stampOf))]
}

function numbersOf(list: unknown): readonly string[] {
  return typeof list === 'string' ? list.split(',') : []
}

/** Keeps, for each key, only the messages before the first one that has to wait longer. */
function onwardOf(rows: readonly Row[]): readonly Row[] {
  return withoutLater(
    rows,
    (row) => row['key'],
    (row) => row['later'] === 'true',
  )
}
