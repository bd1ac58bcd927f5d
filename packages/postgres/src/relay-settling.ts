import { LeaseLostError, SettlementError, type Lease } from '@txbox/core'
import type { Row } from './backlog-message.ts'
import { hasCode } from './errors.ts'
import { runAtReadCommitted, type Source } from './run-alone.ts'

const SETTLING = 'settling messages'

/** Insufficient privilege: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const NO_PRIVILEGE = '42501'

/** A character that the encoding of the database does not have. */
const UNTRANSLATABLE = '22P05'

/** Statements that are settlements under a lease: each is a transaction of its own. */
export class RelaySettling {
  readonly #source: Source

  constructor(source: Source) {
    this.#source = source
  }

  /** Runs a settlement with texts that the database may not be able to hold unchanged. */
  async settleVerdicts(
    lease: Lease,
    text: string,
    valuesWith: (ascii: boolean) => readonly unknown[],
  ): Promise<Row> {
    try {
      return await this.settle(lease, text, valuesWith(false))
    } catch (error) {
      if (!hasCode(error, UNTRANSLATABLE)) throw error
      return this.settle(lease, text, valuesWith(true))
    }
  }

  /** @throws {LeaseLostError} when the lease is no longer this one: the statement has returned no row. */
  async settle(lease: Lease, text: string, values: readonly unknown[]): Promise<Row> {
    const [row] = (await this.attempt(text, values)).rows
    if (row !== undefined) return row
    throw new LeaseLostError(
      `The lease '${lease.name}' of term ${lease.term} is no longer held by '${lease.owner}': what it published last was ` +
        'not settled and will be published again, with the same ids, by the new owner.',
    )
  }

  /** @throws {SettlementError} when the role of the relay may not do it. */
  async attempt(text: string, values: readonly unknown[]): ReturnType<typeof runAtReadCommitted> {
    try {
      return await runAtReadCommitted(this.#source, SETTLING, text, values)
    } catch (error) {
      if (!hasCode(error, NO_PRIVILEGE)) throw error
      throw new SettlementError(
        `${SETTLING}: the database refuses it (${(error as Error).message}). Nothing was changed. Give the role of the ` +
          'relay the rights of docs/privileges/postgres.sql.',
        { cause: error },
      )
    }
  }
}

/** @throws {SettlementError} when some rows are still there. */
export function assertNone(remaining: number, of: number, where: string): void {
  if (remaining === 0) return
  throw new SettlementError(
    `${SETTLING}: ${remaining} of ${of} rows that were to go are still ${where}. A row-level security policy, a trigger ` +
      'or a rule keeps them; the rest was settled. Let the role of the relay delete rows there.',
  )
}

export function fence({ name, owner, term }: Lease): readonly unknown[] {
  return [name, owner, String(term)]
}
