import { randomFillSync } from 'node:crypto'
import {
  NotInTransactionError,
  TransactionConflictError,
  type Claim,
  type ClaimResult,
  type InboxStore,
  type Session,
} from '@txbox/core'
import { DUPLICATE_KEY, numberOf } from './errors.ts'
import type { inboxStatementsByEngine } from './inbox-statements.ts'
import { fill, optionalTextOf, textOf, type Value } from './literals.ts'
import { assertInTransaction, execute, type MysqlSession } from './session.ts'

/** How often a claim is decided anew when others get in between. Two or three do, in practice. */
const ROUNDS = 20

const CLAIMING = 'claiming the message in the inbox'

type Row = Readonly<Record<string, unknown>>
type Statements = ReturnType<typeof inboxStatementsByEngine>

/** The inbox table of MySQL and MariaDB. The contract is that of the port. */
export class MysqlInboxStore implements InboxStore {
  readonly #statements: Statements

  constructor(statements: Statements) {
    this.#statements = statements
  }

  async claim(session: Session, claim: Claim): Promise<ClaimResult> {
    const sql = this.#sql(session)
    const key = keyOf(claim.consumer, claim.key)
    const rest = [claim.correlationId ?? null, microseconds(claim.retentionMs)]
    for (let round = 0; round < ROUNDS; round++) {
      try {
        const { inTransaction } = await execute(session, CLAIMING, sql.claim, [...key, ...rest])
        if (inTransaction === false) await this.#refuse(session, key)
        return { status: 'won' }
      } catch (error) {
        if (numberOf(error) !== DUPLICATE_KEY) throw error
      }

      const { rows } = await execute(session, CLAIMING, sql.read, key)
      const found = rows[0]
      if (found !== undefined && textOf(found['live']) === '1') return taken(found)
      if (found !== undefined) {
        const renewed = await execute(session, CLAIMING, sql.renew, [...rest, ...key])
        if (renewed.affected > 0) {
          if (renewed.inTransaction === false) await this.#refuse(session, key)
          return { status: 'won' }
        }
      }
    }
    throw unsettled(claim.consumer)
  }

  async claimBatch(
    session: Session,
    claims: readonly Claim[],
    options: { readonly times: boolean },
  ): Promise<readonly ClaimResult[]> {
    const [first] = claims
    if (first === undefined) return []
    const sql = this.#sql(session)
    const consumer = Buffer.from(first.consumer)
    const token = randomFillSync(Buffer.alloc(16))
    const keys = claims.map((claim) => Buffer.from(claim.key))
    const order = [...keys.keys()].sort((a, b) => Buffer.compare(keys[a]!, keys[b]!))
    const rows = order.map((index) => {
      const { correlationId, retentionMs } = claims[index]!
      const values = [consumer, keys[index]!, correlationId ?? null, microseconds(retentionMs), token]
      return fill(sql.claimBatchRow, values)
    })
    const inserted = await execute(
      session,
      CLAIMING,
      sql.claimBatch.replace('ROWS', () => rows.join(',')),
      [],
    )
    if (inserted.inTransaction === false) {
      await execute(session, CLAIMING, sql.takeBackBatch, [consumer, token, keys])
      throw outside()
    }
    if (inserted.insertId === 0 && !options.times) return claims.map(() => ({ status: 'won' }))

    const asked = JSON.stringify(order.map((index) => keys[index]!.toString('hex')))
    const { rows: found } = await execute(session, CLAIMING, sql.readBatch, [token, asked, consumer])
    const byKey = new Map(found.map((row) => [textOf(row['key']).toLowerCase(), row]))
    return keys.map((key): ClaimResult => {
      const row = byKey.get(key.toString('hex'))
      if (row === undefined) throw unsettled(first.consumer)
      return textOf(row['mine']) === '1' ? { status: 'won', processedAt: instant(row) } : taken(row)
    })
  }

  async find(session: Session, consumer: string, key: string): Promise<boolean> {
    await assertInTransaction(session)
    const doing = 'looking for the message in the inbox'
    const { rows } = await execute(session, doing, this.#sql(session).find, keyOf(consumer, key))
    return rows.length > 0
  }

  async remove(session: Session, consumer: string, key: string): Promise<boolean> {
    await assertInTransaction(session)
    const doing = 'removing a claim from the inbox'
    const sql = this.#sql(session)
    const { affected } = await execute(session, doing, sql.removeLive, keyOf(consumer, key))
    if (affected === 0) await execute(session, doing, sql.removeExpired, keyOf(consumer, key))
    return affected > 0
  }

  /** Takes back a claim of which the server's answer says that it is committed already. */
  async #refuse(session: Session, key: readonly Value[]): Promise<never> {
    await execute(session, CLAIMING, this.#sql(session).takeBack, key)
    throw outside()
  }

  #sql(session: Session): Statements['mysql'] {
    return this.#statements[(session as MysqlSession).server.engine]
  }
}

function keyOf(consumer: string, key: string): readonly Value[] {
  return [{ utf8: consumer }, { utf8: key }]
}

function microseconds(ms: number): number {
  return Math.round(ms * 1000)
}

function taken(row: Row): ClaimResult {
  return {
    status: 'taken',
    firstProcessedAt: instant(row),
    correlationId: optionalTextOf(row['correlation_id']),
  }
}

function instant(row: Row): Date {
  return new Date(Math.floor(Number(textOf(row['processed_at'])) / 1000))
}

function outside(): NotInTransactionError {
  return new NotInTransactionError(
    'Expected an open transaction, but this connection is in none: call beginTransaction() first, and do not commit or ' +
      'roll back before everything has been awaited. The claim was deleted again.',
  )
}

function unsettled(consumer: string): TransactionConflictError {
  return new TransactionConflictError(
    `${CLAIMING}: the claim of consumer '${consumer}' kept changing hands during ${ROUNDS} attempts. Roll back and run ` +
      'the transaction again.',
  )
}
