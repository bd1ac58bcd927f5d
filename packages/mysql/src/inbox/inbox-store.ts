/*
 * On MySQL and MariaDB a library that hides its statements needs a mark of the transaction before the handler; PostgreSQL
 * shows whether a claim exists.
 */
import type { Session } from '@txbox/core'
import type {
  Claim,
  ClaimOptions,
  ClaimResult,
  HandlerClaim,
  HandlerClaims,
  InboxStore,
} from '@txbox/core/ports'
import { SAVING_RESULT, claimEachKeyOnce, claimGone } from '@txbox/sql/stores'
import type { CheckedSnapshot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import type { Tables } from '../connection/identifiers.ts'
import { json, microseconds } from '../connection/literals.ts'
import { rowsByPacket } from '../connection/rows-by-packet.ts'
import { byEngine, type ByEngine } from '../connection/server.ts'
import {
  assertInTransaction,
  execute,
  markWithClaim,
  watch,
  type MysqlSession,
} from '../connection/session.ts'
import { BatchClaims } from './batch-claims.ts'
import { inboxStatements } from './inbox-statements.ts'
import { boundLockWait, lockWaitOf } from './lock-wait.ts'
import { SingleClaims, keyOf, withoutMark, type InboxSql } from './single-claims.ts'

/** The inbox table of MySQL and MariaDB. {@link InboxStore} documents the methods. */
export class MysqlInboxStore implements InboxStore {
  readonly #statements: ByEngine<InboxSql>
  readonly #singles: SingleClaims
  readonly #batches: BatchClaims

  constructor(tables: Tables) {
    this.#statements = byEngine(inboxStatements, tables)
    this.#singles = new SingleClaims(this.#statements)
    this.#batches = new BatchClaims(this.#statements, this.#singles)
  }

  claim(session: Session, claim: Claim, options: ClaimOptions = {}): Promise<ClaimResult> {
    return this.#singles.claim(session, claim, options, withoutMark)
  }

  async claimToHandle(session: Session, claim: Claim, options: ClaimOptions = {}): Promise<HandlerClaim> {
    const result = await this.#singles.claim(session, claim, options, markWithClaim)
    if (result.status !== 'won') return result
    return { status: 'won', run: (handler) => watch(session, handler, result.mark) }
  }

  async claimBatch(
    session: Session,
    claims: readonly Claim[],
    options: ClaimOptions = {},
  ): Promise<readonly ClaimResult[]> {
    const how = { isTimed: false, marking: withoutMark }
    return (await this.#batches.claim(session, claims, options, how)).results
  }

  async claimBatchToHandle(
    session: Session,
    claims: readonly Claim[],
    options: ClaimOptions = {},
  ): Promise<HandlerClaims> {
    let mark: CheckedSnapshot | undefined
    const results = await claimEachKeyOnce(claims, async (distinct, isTimed) => {
      const how = { isTimed, marking: markWithClaim }
      const claimed = await this.#batches.claim(session, distinct, options, how)
      mark = claimed.mark
      return claimed.results
    })
    return { results, run: (handler) => watch(session, handler, mark) }
  }

  async saveResult(session: Session, claim: Pick<Claim, 'consumer' | 'key'>, result: string): Promise<void> {
    const values = [result, ...keyOf(claim)]
    const { affected } = await execute(session, SAVING_RESULT, this.#sql(session).saveResult, values)
    if (affected === 0) throw claimGone()
  }

  async extend(
    session: Session,
    { consumer, key, result, retentionMs }: Claim & { readonly result: string },
    options: ClaimOptions,
  ): Promise<boolean> {
    await assertInTransaction(session)
    const values = [microseconds(retentionMs), ...keyOf({ consumer, key }), { utf8: result }]
    const { affected } = await boundLockWait(session, lockWaitOf(session, options), ({ send }) =>
      send(this.#sql(session).extend, values),
    )
    return affected > 0
  }

  async find(session: Session, consumer: string, key: string): Promise<boolean> {
    await assertInTransaction(session)
    const doing = 'looking for the message in the inbox'
    const { rows } = await execute(session, doing, this.#sql(session).find, keyOf({ consumer, key }))
    return rows.length > 0
  }

  async clock(session: Session): Promise<Date> {
    const doing = 'reading the clock of the database'
    const { rows } = await execute(session, doing, this.#sql(session).clock, [])
    return columns.date(rows[0], 'now')
  }

  async remove(session: Session, consumer: string, key: string): Promise<boolean> {
    await assertInTransaction(session)
    const doing = 'removing a claim from the inbox'
    const sql = this.#sql(session)
    const { affected } = await execute(session, doing, sql.removeLive, keyOf({ consumer, key }))
    if (affected === 0) await execute(session, doing, sql.removeExpired, keyOf({ consumer, key }))
    return affected > 0
  }

  async removeBatch(session: Session, consumer: string, keys: readonly string[]): Promise<void> {
    await assertInTransaction(session)
    const sql = this.#sql(session)
    const { maxStatementBytes } = (session as MysqlSession).server
    const rows = keys.map((key) => `"${Buffer.from(key).toString('hex')}"`)
    // The name of a consumer has at most 400 bytes, and twice as many in hexadecimal.
    const headBytes = sql.removeBatch.length + 1000
    for (const packet of rowsByPacket(rows, headBytes, maxStatementBytes, ({ length }) => length)) {
      const values = [json(packet), { utf8: consumer }]
      await execute(session, 'removing claims from the inbox', sql.removeBatch, values)
    }
  }

  #sql(session: Session): InboxSql {
    return this.#statements[(session as MysqlSession).server.engine]
  }
}
