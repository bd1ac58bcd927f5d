/*
 * PostgreSQL reads by COPY, remembers where a scan starts, and settles in one statement by the addresses of rows. MySQL
 * and MariaDB have none of these.
 */
import type {
  BacklogMessage,
  BacklogRow,
  Lease,
  ParkedSettlement,
  ReadLimits,
  RelayStore,
  Settlement,
  ShardWork,
} from '@txbox/core'
import {
  inlineBytes,
  refused as verdictOf,
  waiting,
  withLiterals,
  withoutLater,
  type Row,
  type Source,
} from '@txbox/sql'
import { addressesOf, isLarge, stampOf, toMessages } from './backlog-message.ts'
import { CopiedMessages } from './copied-messages.ts'
import {
  binaryAddresses,
  binaryArray,
  binaryStamps,
  textAddresses,
  textArray,
  textStamps,
} from './integer-arrays.ts'
import type { parkedStatements } from './parked-statements.ts'
import { RelayServer, type Server } from './relay-server.ts'
import { RelaySettling, assertNone, fence } from './relay-settling.ts'
import type { relayStatements } from './relay-statements.ts'
import { columnsOf, rowsOf } from './relay-verdicts.ts'
import { copyAlone, runAtReadCommitted, serverTimeoutMs, type CopyOut } from './run-alone.ts'
import { ScanStarts, type OpenWriter, type Scan } from './scan-start.ts'

const READING = 'reading the outbox'

/** The number of keys that are examined at a time. */
const HEAL_KEYS = 10_000

/**
 * The outbox table and the table of parked messages on PostgreSQL, for the relay. {@link RelayStore} documents the
 * methods.
 */
export class PostgresRelayStore implements RelayStore {
  readonly #sql: ReturnType<typeof relayStatements>
  readonly #parked: ReturnType<typeof parkedStatements>
  readonly #source: Source
  readonly #settling: RelaySettling
  readonly #server = new RelayServer(
    () => this.#askServer(),
    () => this.#starts.forget(),
  )
  readonly #starts = new ScanStarts(() => this.#openWriters())
  readonly #copyOut: CopyOut | undefined
  /** Shards whose last read found payloads that are too large to be read together with their messages. */
  readonly #large = new Set<number>()
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<number, string>()

  constructor(
    statements: ReturnType<typeof relayStatements>,
    parked: ReturnType<typeof parkedStatements>,
    source: Source,
  ) {
    this.#sql = statements
    this.#parked = parked
    this.#source = source
    this.#settling = new RelaySettling(source)
    this.#copyOut = source.root.copyOut?.(source.db)
  }

  get generation(): number {
    return this.#server.generation
  }

  read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    return this.#server.remembering(async (server) => {
      const { start, scan } = await this.#starts.begin(shard)
      const copied = await this.#copyOldest(shard, limits, scan, server)
      if (copied !== undefined) {
        start.end(scan, copied[0]?.seq, copied.at(-1)?.seq)
        return copied
      }
      const { identity, last } = server
      const rows = await this.#read(this.#sql.read, [
        ...[shard, limits.messages, inlineBytes(limits), String(scan.from)],
        ...[identity, String(last)],
      ])
      start.end(scan, numberOf(rows[0]), numberOf(rows.at(-1)))
      if (!rows.some(isLarge)) this.#large.delete(shard)
      return toMessages(rows, shard, limits.bytes, (seqs, stamps) =>
        this.#read(this.#sql.readPayloads, [shard, textArray(seqs), textStamps(stamps)]),
      )
    })
  }

  /**
   * Returns `undefined` if the root has no COPY, or if some payloads are too large to be read together with their
   * messages.
   */
  async #copyOldest(
    shard: number,
    limits: ReadLimits,
    { from }: Scan,
    { identity, last }: Server,
  ): Promise<readonly BacklogMessage[] | undefined> {
    if (this.#copyOut === undefined || this.#large.has(shard)) return undefined
    const values = [shard, limits.messages, inlineBytes(limits), from, identity, last]
    const { messages, hasLarge } = await copyAlone(
      this.#source,
      this.#copyOut,
      READING,
      withLiterals(this.#sql.copy, [...values, serverTimeoutMs(this.#source)]),
      () => new CopiedMessages(shard),
    )
    if (!hasLarge) return messages
    this.#large.add(shard)
    return undefined
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
        : await this.#read(this.#parked.readAlone, [...placesOf(alone), mostBytes])),
      ...(onward.length === 0 ? [] : onwardOf(await this.#readOnward(shard, onward, limits))),
    ]
    return this.#toParked(rows, shard, limits)
  }

  async readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined> {
    const rows = await this.#read(this.#parked.readSuspect, [shard, limits.bytes])
    const [suspect] = await this.#toParked(rows, shard, limits)
    return suspect
  }

  async suspectParked(lease: Lease, shard: number, places: { from: bigint; to: bigint }): Promise<void> {
    const values = [...fence(lease), shard, String(places.from), String(places.to)]
    await this.#settling.settle(lease, this.#parked.suspect, values)
  }

  async settle(lease: Lease, shard: number, settlement: Settlement): Promise<void> {
    const { accepted, refused, behind } = settlement
    const verdicts = [...refused.map(verdictOf), ...behind.map(waiting)]
    if (verdicts.length === 0) {
      await this.#settleAccepted(lease, shard, accepted)
    } else {
      const row = await this.#settling.settleVerdicts(lease, this.#sql.settleAndPark, (ascii) => [
        ...[...fence(lease), shard, ...rowsOf(accepted)],
        ...columnsOf(verdicts, ascii),
      ])
      const missing = Number(row['settled']) < accepted.length || Number(row['moved']) < verdicts.length
      if (missing) await this.#assertGone(shard, [...accepted, ...verdicts.map((verdict) => verdict.row)])
    }
    this.#starts.of(shard).deleted(accepted.length + verdicts.length)
  }

  async settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void> {
    const { accepted, refused, released } = settlement
    const row = await this.#settling.settleVerdicts(lease, this.#parked.settle, (ascii) => [
      ...[...fence(lease), ...rowsOf(accepted)],
      ...columnsOf(refused.map(verdictOf), ascii),
      ...[released.map(({ key }) => key), shard],
    ])
    const done = new Set([...numbersOf(row['settled']), ...numbersOf(row['kept'])])
    const rows = [...accepted, ...refused.map((refusal) => refusal.row)]
    const missing = rows.filter(({ seq }) => !done.has(String(seq)))
    if (missing.length === 0) return
    const [found] = await this.#read(this.#parked.remaining, rowsOf(missing))
    assertNone(Number(found?.['remaining']), missing.length, 'among the parked messages')
  }

  async healKeys(lease: Lease, shard: number): Promise<number> {
    const after = this.#healed.get(shard) ?? ''
    const values = [...fence(lease), shard, after, HEAL_KEYS]
    const { healed, keys, last } = await this.#settling.settle(lease, this.#parked.heal, values)
    if (Number(keys) < HEAL_KEYS) this.#healed.delete(shard)
    else this.#healed.set(shard, last as string)
    return Number(healed)
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const values = [...fence(lease), inFlight ?? null]
    const { rows } = await runAtReadCommitted(
      this.#source,
      'recording messages in flight',
      this.#sql.note,
      values,
    )
    return rows.length > 0
  }

  async survived(lease: Lease): Promise<void> {
    await runAtReadCommitted(this.#source, 'resetting the crash count', this.#sql.survived, fence(lease))
  }

  work(shards: readonly number[]): Promise<readonly ShardWork[]> {
    return this.#server.remembering(async ({ identity, last }) => {
      const { rows } = await runAtReadCommitted(this.#source, 'looking for a backlog', this.#sql.work, [
        shards,
        textArray(shards.map((shard) => this.#starts.of(shard).from())),
        ...[identity, String(last)],
      ])
      return rows.map((row) => ({ shard: Number(row['shard']), due: row['due'] === 'true' }))
    })
  }

  /**
   * Finds messages that are due and come first in their keys. Other due messages are put back behind their
   * predecessors.
   */
  async #heads(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly Row[]> {
    for (;;) {
      const due = await this.#read(this.#parked.due, [shard, limits.messages])
      const heads = due.filter((row) => row['first'] === null || row['first'] === row['place'])
      if (heads.length === due.length) return due
      const following = due.filter((row) => !heads.includes(row))
      await this.#settling.settle(lease, this.#parked.follow, [...fence(lease), ...placesOf(following)])
      if (heads.length > 0) return heads
    }
  }

  #readOnward(shard: number, heads: readonly Row[], limits: ReadLimits): Promise<readonly Row[]> {
    const [places, stamps] = placesOf(heads)
    const most = Math.ceil(limits.messages / heads.length)
    const keys = heads.map((row) => row['order_key'])
    return this.#read(this.#parked.readOnward, [shard, keys, places, most, inlineBytes(limits), stamps])
  }

  #toParked(rows: readonly Row[], shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    return toMessages(rows, shard, limits.bytes, (places, stamps) =>
      this.#read(this.#parked.readPayloads, [textArray(places), textStamps(stamps)]),
    )
  }

  async #settleAccepted(lease: Lease, shard: number, accepted: readonly BacklogRow[]): Promise<void> {
    const seqs = accepted.map(({ seq }) => seq)
    const stamps = accepted.map(({ stamp }) => stamp)
    const addresses = addressesOf(accepted)
    const values = [...fence(lease), shard]
    if (addresses !== undefined) {
      // A library that supports COPY also sends bytes unchanged.
      const rows =
        this.#copyOut === undefined
          ? [textArray(seqs), textAddresses(addresses), textStamps(stamps)]
          : [binaryArray(seqs), binaryAddresses(addresses), binaryStamps(stamps)]
      const { affected } = await this.#settling.attempt(this.#sql.settle, [...values, ...rows])
      if (affected === accepted.length) return
    }
    const { settled } = await this.#settling.settle(lease, this.#sql.settleByNumber, [
      ...values,
      ...rowsOf(accepted),
    ])
    if (Number(settled) < accepted.length) await this.#assertGone(shard, accepted)
  }

  /** @throws {SettlementError} when some of these rows are still in the outbox. */
  async #assertGone(shard: number, rows: readonly BacklogRow[]): Promise<void> {
    const [found] = await this.#read(this.#sql.remaining, [shard, ...rowsOf(rows)])
    assertNone(Number(found?.['remaining']), rows.length, 'in the outbox')
  }

  async #askServer(): Promise<Server> {
    const [row] = await this.#read(this.#sql.server, [])
    return serverOf(row)
  }

  async #openWriters(): Promise<readonly OpenWriter[]> {
    const rows = await this.#read(this.#sql.openWriters, [])
    this.#server.answered(serverOf(rows.find((row) => row['server'] !== null)))
    return rows.flatMap(({ writer, prepared }) =>
      writer === null ? [] : [{ writer: writer as string, prepared: prepared === 'true' }],
    )
  }

  async #read(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return (await runAtReadCommitted(this.#source, READING, text, values)).rows
  }
}

function numberOf(row: Row | undefined): bigint | undefined {
  return row === undefined ? undefined : BigInt(row['seq'] as string)
}

function placesOf(rows: readonly Row[]): [places: string, stamps: string] {
  return [textArray(rows.map((row) => row['place'] as string)), textStamps(rows.map(stampOf))]
}

function numbersOf(list: unknown): readonly string[] {
  return typeof list === 'string' ? list.split(',') : []
}

function serverOf(row: Row | undefined): Server {
  if (row === undefined) throw new Error('The server gave no answer.')
  return { identity: row['server'] as string, last: BigInt((row['last'] as string | null) ?? 0) }
}

/** Keeps, for each key, only the messages before the first one that has to wait longer. */
function onwardOf(rows: readonly Row[]): readonly Row[] {
  return withoutLater(
    rows,
    (row) => row['key'],
    (row) => row['later'] === 'true',
  )
}
