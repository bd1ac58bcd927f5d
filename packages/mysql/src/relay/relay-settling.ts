/*
 * A settlement on MySQL and MariaDB is a transaction of several statements, on lists that are split into packets.
 * PostgreSQL needs one statement.
 */
import type { BacklogRow, Lease } from '@txbox/core/ports'
import {
  SETTLING,
  assertNone as assertNoneOf,
  deniedSettlement,
  leaseLost,
  type Row,
  withStorableTexts,
} from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { TABLE_ACCESS_DENIED, UNTRANSLATABLE, hasNumber } from '../connection/errors.ts'
import { json, type Value } from '../connection/literals.ts'
import { rowOf, verdictOf, type Verdict } from './relay-verdicts.ts'
import { rowsByPacket } from '../connection/rows-by-packet.ts'
import { runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import type { Run } from '../connection/short-transaction.ts'
import { shortTransactionStatements } from '../connection/short-transaction-statements.ts'

/** The maximum size of a statement in bytes: sending a longer one would keep a transaction open for too long. */
const PIECE_BYTES = 1_048_576

const BRACKETS = 2

/** Runs short transactions under a lease. Their statements work on lists that may be longer than a packet. */
export class RelaySettling {
  readonly #source: MysqlStatementRoot
  readonly #holdOn: () => Promise<string>
  readonly #locksLease: 'first' | 'last'

  /**
   * @param holdOn returns the statement that finds the lease, and keeps other relays from acquiring it.
   * @param locksLease when the lease is locked. `'last'`: the work locks rows that handlers of a previous owner may have locked, and
   *   a lease that is locked meanwhile could not be renewed.
   */
  constructor(
    source: MysqlStatementRoot,
    holdOn: () => Promise<string>,
    locksLease: 'first' | 'last' = 'first',
  ) {
    this.#source = source
    this.#holdOn = holdOn
    this.#locksLease = locksLease
  }

  /**
   * Runs work in a transaction that locks the lease.
   *
   * @throws {LeaseLostError} when the lease has expired or has another term. Nothing was changed.
   */
  async settle<R>(lease: Lease, work: (run: Run) => Promise<R>): Promise<R> {
    const holdOn = await this.#holdOn()
    const isHeld = async (run: Run): Promise<boolean> => (await run(holdOn, fence(lease))).rows.length > 0
    const done = await this.attempt(() =>
      runTogether(this.#source, SETTLING, async (run) => {
        if (this.#locksLease === 'first') return (await isHeld(run)) ? { result: await work(run) } : undefined
        const result = await work(run)
        if (await isHeld(run)) return { result }
        await run(shortTransactionStatements.rollback, [])
        return undefined
      }),
    )
    if (done === undefined) throw leaseLost(lease)
    return done.result
  }

  /** Runs a settlement with texts that the column may be unable to store unchanged. */
  async settleTexts<R>(
    lease: Lease,
    verdicts: readonly Verdict[],
    work: (run: Run, texts: readonly string[]) => Promise<R>,
  ): Promise<R> {
    // Text has twice its size in hexadecimal, escaped quotes need more space still, and a row has two texts.
    const mostBytes = Math.floor((await this.#source.server()).maxStatementBytes / 16)
    const settle = (ascii: boolean): Promise<R> => {
      const texts = verdicts.map((verdict) => verdictOf(verdict, ascii, mostBytes))
      return this.settle(lease, (run) => work(run, texts))
    }
    return withStorableTexts(settle, (error) => hasNumber(error, UNTRANSLATABLE))
  }

  /**
   * Runs a statement on a JSON list, several times if necessary, so that each statement fits into a packet.
   *
   * @returns the number of rows written.
   */
  async inPieces(
    run: Run,
    text: string,
    list: readonly string[],
    values: readonly Value[] = [],
  ): Promise<number> {
    let affected = 0
    for (const piece of await this.#pieces(text, list)) {
      affected += (await run(text, [json(piece), ...values])).affected
    }
    return affected
  }

  /** Like `inPieces`, for a query. */
  async rowsInPieces(
    run: Run,
    text: string,
    list: readonly string[],
    values: readonly Value[] = [],
  ): Promise<readonly Row[]> {
    const rows: Row[] = []
    for (const piece of await this.#pieces(text, list))
      rows.push(...(await run(text, [json(piece), ...values])).rows)
    return rows
  }

  async #pieces(text: string, list: readonly string[]): Promise<readonly (readonly string[])[]> {
    const { maxStatementBytes } = await this.#source.server()
    // Text that is not plain is sent in hexadecimal.
    const mostLength = Math.min(PIECE_BYTES, Math.floor((maxStatementBytes - text.length) / 2) - 1024)
    return rowsByPacket(list, BRACKETS, mostLength, textBytes)
  }

  async countOf(
    run: Run,
    text: string,
    rows: readonly BacklogRow[],
    values: readonly Value[] = [],
  ): Promise<number> {
    const { rows: found } = await run(text, [json(rows.map(rowOf)), ...values])
    return columns.number(found[0], 'remaining')
  }

  /** @throws {SettlementError} when the user of the relay lacks a privilege. */
  async attempt<R>(work: () => Promise<R>): Promise<R> {
    try {
      return await work()
    } catch (error) {
      if (!hasNumber(error, TABLE_ACCESS_DENIED)) throw error
      const advice = 'Grant the user of the relay the privileges of docs/privileges/mysql.sql.'
      throw deniedSettlement(error, advice)
    }
  }
}

/** @throws {SettlementError} when some rows still exist. */
export function assertNone(remaining: number, of: number, where: string): void {
  assertNoneOf(remaining, of, where, { keepers: 'A trigger or a missing privilege', user: 'user' })
}

/** Returns the values by which a statement finds the lease. */
export function fence({ name, owner, term }: Lease): readonly Value[] {
  return [Buffer.from(name), Buffer.from(owner), term]
}

function textBytes(text: string): number {
  return Buffer.byteLength(text)
}
