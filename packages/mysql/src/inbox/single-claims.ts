/* On MySQL and MariaDB a duplicate is an error; PostgreSQL counts the rows that a claim wrote. */
import { NotInTransactionError, type Session } from '@txbox/core'
import type { Claim, ClaimOptions, ClaimResult } from '@txbox/core/ports'
import { CLAIMING, CLAIM_ROUNDS, duplicateClaim, hasExtras, unsettledClaim } from '@txbox/sql/stores'
import type { CheckedSnapshot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, numberOf } from '../connection/errors.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import type { ByEngine } from '../connection/server.ts'
import { executeAnywhere, type MysqlSession, type markWithClaim } from '../connection/session.ts'
import type { inboxStatements } from './inbox-statements.ts'
import { boundLockWait, isHeldByAnother, lockWaitOf, type BoundStatements } from './lock-wait.ts'

export type InboxSql = ReturnType<typeof inboxStatements>

/** Marks the transaction for the handler, in the tick in which a claim is sent. */
export type Marking = typeof markWithClaim

/** A result with the mark of a claim that was won. */
export type MarkedResult =
  | { readonly status: 'won'; readonly mark?: CheckedSnapshot | undefined }
  | Exclude<ClaimResult, { status: 'won' }>

export function withoutMark(): undefined {
  return undefined
}

/** Makes claims one by one. */
export class SingleClaims {
  readonly #statements: ByEngine<InboxSql>

  constructor(statements: ByEngine<InboxSql>) {
    this.#statements = statements
  }

  claim(session: Session, claim: Claim, options: ClaimOptions, marking: Marking): Promise<MarkedResult> {
    const wait = lockWaitOf(session, options)
    return boundLockWait(session, wait, (statements) =>
      wait.isReported
        ? this.reported(session, claim, statements, marking)
        : this.#claim(session, claim, statements, marking),
    )
  }

  /** Makes a claim, but does not wait if another transaction has an open claim of the key. */
  async reported(
    session: Session,
    claim: Claim,
    statements: BoundStatements,
    marking: Marking,
  ): Promise<MarkedResult> {
    try {
      if (statements.canProbe) {
        const { rows } = await statements.send(this.#sql(session).readNoWait, keyOf(claim))
        if (columns.flag(rows[0], 'live')) return duplicateClaim(columns, rows[0]!)
      }
      return await this.#claim(session, claim, statements, marking)
    } catch (error) {
      if (await isHeldByAnother(session, error)) return { status: 'in-flight' }
      throw error
    }
  }

  async #claim(
    session: Session,
    claim: Claim,
    { send }: BoundStatements,
    marking: Marking,
  ): Promise<MarkedResult> {
    const sql = this.#sql(session)
    const key = keyOf(claim)
    const extras = hasExtras(claim)
    const rest = [
      claim.correlationId ?? null,
      microseconds(claim.retentionMs),
      ...(extras ? extrasOf(claim) : []),
    ]
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      const sent = send(extras ? sql.claimWith : sql.claim, [...key, ...rest])
      const mark = marking(session)
      try {
        const { inTransaction } = await sent
        if (inTransaction === false) await this.#refuse(session, key)
        return { status: 'won', mark }
      } catch (error) {
        mark?.end()
        if (numberOf(error) !== DUPLICATE_KEY) throw error
      }

      const { rows } = await send(sql.read, key)
      const found = rows[0]
      if (found !== undefined && columns.flag(found, 'live')) return duplicateClaim(columns, found)
      if (found !== undefined) {
        const renewed = await send(extras ? sql.renewWith : sql.renew, [...rest, ...key])
        if (renewed.affected > 0) {
          if (renewed.inTransaction === false) await this.#refuse(session, key)
          return { status: 'won' }
        }
      }
    }
    throw unsettledClaim(claim.consumer)
  }

  /** Deletes a claim that is already committed, as the server's answer shows, and throws. */
  async #refuse(session: Session, key: readonly Value[]): Promise<never> {
    await executeAnywhere(session, CLAIMING, this.#sql(session).takeBack, key)
    throw outside()
  }

  #sql(session: Session): InboxSql {
    return this.#statements[(session as MysqlSession).server.engine]
  }
}

export function extrasOf({ result, contentHash }: Claim): Value[] {
  return [result ?? null, contentHash ?? null]
}

export function keyOf({ consumer, key }: Pick<Claim, 'consumer' | 'key'>): readonly Value[] {
  return [{ utf8: consumer }, { utf8: key }]
}

export function outside(): NotInTransactionError {
  return new NotInTransactionError(
    'Expected an open transaction, but this connection has none: call beginTransaction() first, and do not commit or ' +
      'roll back before everything has been awaited. The claim was deleted again.',
  )
}
