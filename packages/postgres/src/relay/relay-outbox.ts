/*
 * PostgreSQL reads by COPY, remembers where a scan starts, and settles in one statement by the addresses of rows. MySQL
 * and MariaDB have none of these.
 */
import type {
  BacklogMessage,
  BacklogRow,
  Lease,
  ReadLimits,
  OutboxSettlement,
  ShardWork,
} from '@txbox/core/ports'
import {
  SETTLING,
  assertNone as assertNoneOf,
  deniedSettlement,
  inlineBytes,
  leaseLost,
  refused as verdictOf,
  waiting,
  withStorableTexts,
  type Row,
  type UnacceptedRow,
} from '@txbox/sql/stores'
import { withLiterals, type StatementRoot, type SqlResult } from '@txbox/sql/transactions'
import { isLarge, toMessages, type LocatedMessage } from './backlog-message.ts'
import { columns } from '../connection/columns.ts'
import { CopiedMessages } from './copied-messages.ts'
import { UNTRANSLATABLE, hasCode } from '../connection/errors.ts'
import { binaryRows, rowsOf, textArray, textRows, textStamps } from '../connection/integer-arrays.ts'
import { relayStatements } from './relay-statements.ts'
import { serverTimeoutMs } from '../connection/own-transaction.ts'
import { columnsOf } from './relay-verdicts.ts'
import {
  RememberedNumbers,
  type OpenWriter,
  type Scan,
  type ScanStart,
  type Server,
} from './remembered-numbers.ts'
import { copyAlone, runAtReadCommitted, type CopyOut } from '../connection/run-alone.ts'

const READING = 'reading the outbox'

const NO_PRIVILEGE = '42501'

/**
 * The outbox table on PostgreSQL, for the relay, and the settlements of both tables. Each settlement is one statement and
 * a transaction of its own, under a lease. `RelayStore` documents the public methods.
 */
export abstract class RelayOutbox {
  protected readonly sql: ReturnType<typeof relayStatements>
  protected readonly source: StatementRoot
  readonly #copyOut: CopyOut | undefined
  readonly #numbers = new RememberedNumbers(
    () => this.#askServer(),
    () => this.#openWriters(),
  )
  /** Shards whose last read found payloads that are too large to be read together with their messages. */
  readonly #large = new Set<number>()

  constructor(schema: string, source: StatementRoot) {
    this.sql = relayStatements(schema)
    this.source = source
    this.#copyOut = source.root.copyOut?.(source.db)
  }

  get generation(): number {
    return this.#numbers.generation
  }

  work(shards: readonly number[]): Promise<readonly ShardWork[]> {
    return this.#numbers.remembering(async ({ identity, last }) => {
      const { rows } = await runAtReadCommitted(this.source, 'looking for a backlog', this.sql.work, [
        shards,
        textArray(shards.map((shard) => this.#numbers.starts.of(shard).from())),
        ...[identity, String(last)],
      ])
      return rows.map((row) => ({ shard: columns.number(row, 'shard'), due: columns.flag(row, 'due') }))
    })
  }

  read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    return this.#numbers.remembering(async (server) => {
      const { start, scan } = await this.#numbers.starts.begin(shard)
      const copied = await this.#copyOldest(shard, limits, scan, server)
      if (copied === undefined) return this.#selectOldest(shard, limits, scan, server, start)
      start.end(scan, copied[0]?.seq, copied.at(-1)?.seq)
      return copied
    })
  }

  /**
   * Returns `undefined` if the root has no COPY, or if some payloads are too large to be read together with their
   * messages.
   */
  async #copyOldest(
    shard: number,
    { messages: limit, bytes }: ReadLimits,
    { from }: Scan,
    { identity, last }: Server,
  ): Promise<readonly BacklogMessage[] | undefined> {
    if (this.#copyOut === undefined || this.#large.has(shard)) return undefined
    // Payloads of at most this size all fit together; larger ones are only measured.
    const values = [shard, limit, Math.floor(bytes / limit), from, identity, last]
    const text = withLiterals(this.sql.copy, [...values, serverTimeoutMs(this.source)])
    const begin = (): CopiedMessages => new CopiedMessages(shard)
    const { messages, hasLarge } = await copyAlone(this.source, this.#copyOut, READING, text, begin)
    if (!hasLarge) return messages
    this.#large.add(shard)
    return undefined
  }

  async #selectOldest(
    shard: number,
    limits: ReadLimits,
    scan: Scan,
    { identity, last }: Server,
    start: ScanStart,
  ): Promise<readonly BacklogMessage[]> {
    const rows = await this.query(this.sql.read, [
      ...[shard, limits.messages, inlineBytes(limits), String(scan.from)],
      ...[identity, String(last)],
    ])
    start.end(scan, numberOf(rows[0]), numberOf(rows.at(-1)))
    if (!rows.some(isLarge)) this.#large.delete(shard)
    return toMessages(rows, shard, limits.bytes, (seqs, stamps) =>
      this.query(this.sql.readPayloads, [shard, textArray(seqs), textStamps(stamps)]),
    )
  }

  async settle(lease: Lease, shard: number, settlement: OutboxSettlement): Promise<void> {
    const { accepted, refused, behind } = settlement
    const verdicts = [...refused.map(verdictOf), ...behind.map(waiting)]
    if (verdicts.length === 0) await this.#settleAccepted(lease, shard, accepted)
    else await this.#settleAndPark(lease, shard, accepted, verdicts)
    this.#numbers.starts.of(shard).deleted(accepted.length + verdicts.length)
  }

  async #settleAccepted(lease: Lease, shard: number, accepted: readonly BacklogRow[]): Promise<void> {
    const values = [...fence(lease), shard]
    const addresses = addressesOf(accepted)
    if (addresses !== undefined) {
      // A library that supports COPY also sends bytes unchanged.
      const toRows = this.#copyOut === undefined ? textRows : binaryRows
      const { affected } = await this.attempt(this.sql.settle, [...values, ...toRows(accepted, addresses)])
      if (affected === accepted.length) return
    }
    const row = await this.attemptFenced(lease, this.sql.settleByNumber, [...values, ...rowsOf(accepted)])
    if (columns.number(row, 'settled') < accepted.length) await this.#assertGone(shard, accepted)
  }

  async #settleAndPark(
    lease: Lease,
    shard: number,
    accepted: readonly BacklogRow[],
    verdicts: readonly UnacceptedRow[],
  ): Promise<void> {
    const row = await this.settleVerdicts(lease, this.sql.settleAndPark, (ascii) => [
      ...[...fence(lease), shard, ...rowsOf(accepted)],
      ...columnsOf(verdicts, ascii),
    ])
    const [settled, moved] = [columns.number(row, 'settled'), columns.number(row, 'moved')]
    const missing = settled < accepted.length || moved < verdicts.length
    if (missing) await this.#assertGone(shard, [...accepted, ...verdicts.map((verdict) => verdict.row)])
  }

  /** @throws {SettlementError} when some of these rows are still in the outbox. */
  async #assertGone(shard: number, rows: readonly BacklogRow[]): Promise<void> {
    const [found] = await this.query(this.sql.remaining, [shard, ...rowsOf(rows)])
    assertNone(columns.number(found, 'remaining'), rows.length, 'in the outbox')
  }

  /** @throws {SettlementError} when the role of the relay lacks a privilege. */
  protected async attempt(text: string, values: readonly unknown[]): Promise<SqlResult> {
    try {
      return await runAtReadCommitted(this.source, SETTLING, text, values)
    } catch (error) {
      if (!hasCode(error, NO_PRIVILEGE)) throw error
      const advice = 'Grant the role of the relay the privileges of docs/privileges/postgres.sql.'
      throw deniedSettlement(error, advice)
    }
  }

  /**
   * Runs a settlement that returns one row.
   *
   * @throws {LeaseLostError} when the lease has expired or has another term, so that the statement has returned no row.
   */
  protected async attemptFenced(lease: Lease, text: string, values: readonly unknown[]): Promise<Row> {
    const [row] = (await this.attempt(text, values)).rows
    if (row === undefined) throw leaseLost(lease)
    return row
  }

  /** Runs a settlement with texts that the database may be unable to store unchanged. */
  protected settleVerdicts(
    lease: Lease,
    text: string,
    valuesWith: (ascii: boolean) => readonly unknown[],
  ): Promise<Row> {
    return withStorableTexts(
      (ascii) => this.attemptFenced(lease, text, valuesWith(ascii)),
      (error) => hasCode(error, UNTRANSLATABLE),
    )
  }

  protected async query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return (await runAtReadCommitted(this.source, READING, text, values)).rows
  }

  async #askServer(): Promise<Server> {
    const [row] = await this.query(this.sql.server, [])
    return serverOf(row)
  }

  async #openWriters(): Promise<readonly OpenWriter[]> {
    const rows = await this.query(this.sql.openWriters, [])
    this.#numbers.answered(serverOf(rows.find((row) => columns.has(row, 'server'))))
    return rows
      .filter((row) => columns.has(row, 'writer'))
      .map((row) => ({ writer: columns.text(row, 'writer'), prepared: columns.flag(row, 'prepared') }))
  }
}

/** @throws {SettlementError} when some rows still exist. */
export function assertNone(remaining: number, of: number, where: string): void {
  const keepers = 'A row-level security policy, a trigger or a rule'
  assertNoneOf(remaining, of, where, { keepers, user: 'role' })
}

/** Returns the values for `heldLease` of the statements. */
export function fence({ name, owner, term }: Lease): readonly unknown[] {
  return [name, owner, String(term)]
}

/**
 * Returns the positions of rows that this package has read. The positions are still known when the rows are settled,
 * because the caller of the port passes the same objects that it has read.
 *
 * @returns `undefined` when a row has no position.
 */
function addressesOf(rows: readonly BacklogRow[]): readonly number[] | undefined {
  const addresses = rows.flatMap((row) => (row as Partial<LocatedMessage>).address ?? [])
  return addresses.length === rows.length ? addresses : undefined
}

function numberOf(row: Row | undefined): bigint | undefined {
  return row === undefined ? undefined : columns.bigint(row, 'seq')
}

function serverOf(row: Row | undefined): Server {
  if (row === undefined) throw new Error('The server gave no answer.')
  return { identity: columns.text(row, 'server'), last: BigInt(columns.optionalText(row, 'last') ?? 0) }
}
