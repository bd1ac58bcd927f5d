/*
 * A settlement is one statement of PostgreSQL; MySQL and MariaDB need a transaction of several statements, on lists
 * that are split into packets.
 */
import type { Lease } from '@txbox/core'
import {
  SETTLING,
  assertNone as assertNoneOf,
  deniedSettlement,
  leaseLost,
  withStorableTexts,
  type Row,
  type Source,
  type SqlResult,
} from '@txbox/sql'
import { UNTRANSLATABLE, hasCode } from './errors.ts'
import { runAtReadCommitted } from './run-alone.ts'

/** Insufficient privilege. */
const NO_PRIVILEGE = '42501'

/** Runs settlements under a lease. Each settlement is one statement and a transaction of its own. */
export class RelaySettling {
  readonly #source: Source

  constructor(source: Source) {
    this.#source = source
  }

  /** Runs a settlement with texts that the database may be unable to store unchanged. */
  settleVerdicts(
    lease: Lease,
    text: string,
    valuesWith: (ascii: boolean) => readonly unknown[],
  ): Promise<Row> {
    return withStorableTexts(
      (ascii) => this.settle(lease, text, valuesWith(ascii)),
      (error) => hasCode(error, UNTRANSLATABLE),
    )
  }

  /**
   * Runs a settlement that returns one row.
   *
   * @throws {LeaseLostError} when the lease has expired or has another term, so that the statement has returned no row.
   */
  async settle(lease: Lease, text: string, values: readonly unknown[]): Promise<Row> {
    const [row] = (await this.attempt(text, values)).rows
    if (row === undefined) throw leaseLost(lease)
    return row
  }

  /**
   * Runs a statement of a settlement.
   *
   * @throws {SettlementError} when the role of the relay lacks a privilege.
   */
  async attempt(text: string, values: readonly unknown[]): Promise<SqlResult> {
    try {
      return await runAtReadCommitted(this.#source, SETTLING, text, values)
    } catch (error) {
      if (!hasCode(error, NO_PRIVILEGE)) throw error
      const advice = 'Grant the role of the relay the privileges of docs/privileges/postgres.sql.'
      throw deniedSettlement(error, advice)
    }
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
