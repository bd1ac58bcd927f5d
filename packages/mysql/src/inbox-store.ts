/* On MySQL and MariaDB a duplicate is an error, and a batch has a token; PostgreSQL counts the rows that a claim wrote. */
import { randomFillSync } from 'node:crypto'
import {
  InvalidMessageError,
  NotInTransactionError,
  type Claim,
  type ClaimResult,
  type InboxStore,
  type Session,
} from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { CLAIMING, CLAIM_ROUNDS, takenClaim, unsettledClaim, type Row } from '@txbox/sql'
import { columns } from './columns.ts'
import { DUPLICATE_KEY, numberOf } from './errors.ts'
import type { inboxStatementsByEngine } from './inbox-statements.ts'
import { fill, type Value } from './literals.ts'
import { rowsByPacket } from './rows-by-packet.ts'
import { assertInTransaction, execute, executeAnywhere, type MysqlSession } from './session.ts'

type Statements = ReturnType<typeof inboxStatementsByEngine>

/** The inbox table of MySQL and MariaDB. {@link InboxStore} documents the methods. */
export class MysqlInboxStore implements InboxStore {
  readonly #statements: Statements

  constructor(statements: Statements) {
    this.#statements = statements
  }

  async claim(session: Session, claim: Claim): Promise<ClaimResult> {
    const sql = this.#sql(session)
    const key = keyOf(claim.consumer, claim.key)
    const rest = [claim.correlationId ?? null, microseconds(claim.retentionMs)]
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      try {
        const { inTransaction } = await execute(session, CLAIMING, sql.claim, [...key, ...rest])
        if (inTransaction === false) await this.#refuse(session, key)
        return { status: 'won' }
      } catch (error) {
        if (numberOf(error) !== DUPLICATE_KEY) throw error
      }

      const { rows } = await execute(session, CLAIMING, sql.read, key)
      const found = rows[0]
      if (found !== undefined && columns.flag(found, 'live')) return takenClaim(columns, found)
      if (found !== undefined) {
        const renewed = await execute(session, CLAIMING, sql.renew, [...rest, ...key])
        if (renewed.affected > 0) {
          if (renewed.inTransaction === false) await this.#refuse(session, key)
          return { status: 'won' }
        }
      }
    }
    throw unsettledClaim(claim.consumer)
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
      return { key: keys[index]!, row: fill(sql.claimBatchRow, values) }
    })
    const { maxStatementBytes } = (session as MysqlSession).server
    const headBytes = sql.claimBatch([]).length
    const packets = rowsByPacket(rows, headBytes, maxStatementBytes)
    refuseTooLong(packets, headBytes, maxStatementBytes)

    let allNew = true
    for (const packet of packets) {
      const text = sql.claimBatch(packet.map(({ row }) => row))
      const answer = await execute(session, CLAIMING, text, []).catch((error: unknown) => {
        // The transaction was ended after an earlier packet, perhaps by a COMMIT.
        if (error instanceof NotInTransactionError && packet !== packets[0]) return undefined
        throw error
      })
      if (answer === undefined || answer.inTransaction === false) {
        return this.#refuseBatch(session, { consumer, token, packets })
      }
      if (answer.insertId !== 0) allNew = false
    }
    if (allNew && !options.times) return claims.map(() => ({ status: 'won' }))

    const byKey = new Map<string, Row>()
    for (const packet of packets) {
      const asked = JSON.stringify(packet.map(({ key }) => key.toString('hex')))
      const { rows: found } = await execute(session, CLAIMING, sql.readBatch, [token, asked, consumer])
      for (const row of found) byKey.set(columns.text(row, 'key').toLowerCase(), row)
    }
    return keys.map((key): ClaimResult => {
      const row = byKey.get(key.toString('hex'))
      if (row === undefined) throw unsettledClaim(first.consumer)
      const isOwn = columns.flag(row, 'mine')
      return isOwn
        ? { status: 'won', processedAt: columns.date(row, 'processed_at') }
        : takenClaim(columns, row)
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

  /** Deletes a claim that is already committed, according to the server's answer. */
  async #refuse(session: Session, key: readonly Value[]): Promise<never> {
    await executeAnywhere(session, CLAIMING, this.#sql(session).takeBack, key)
    throw outside()
  }

  /** Deletes all claims that this batch has made so far, because the transaction may have ended with a COMMIT. */
  async #refuseBatch(session: Session, { consumer, token, packets }: Batch): Promise<never> {
    for (const packet of packets) {
      const keys = packet.map(({ key }) => key)
      await executeAnywhere(session, CLAIMING, this.#sql(session).takeBackBatch, [consumer, token, keys])
    }
    throw outside()
  }

  #sql(session: Session): Statements['mysql'] {
    return this.#statements[(session as MysqlSession).server.engine]
  }
}

interface Batch {
  readonly consumer: Buffer
  readonly token: Buffer
  readonly packets: readonly (readonly { readonly key: Buffer; readonly row: string }[])[]
}

function refuseTooLong(packets: Batch['packets'], headBytes: number, maxBytes: number): void {
  for (const [first] of packets) {
    if (first === undefined || headBytes + first.row.length + 1 <= maxBytes) continue
    throw new InvalidMessageError(
      `processBatch: the claim of the message with the key '${oneLine(first.key.toString())}' needs a statement of ` +
        `${headBytes + first.row.length} bytes; the server accepts at most ${maxBytes} (max_allowed_packet). Raise ` +
        'max_allowed_packet. Nothing was written.',
    )
  }
}

function keyOf(consumer: string, key: string): readonly Value[] {
  return [{ utf8: consumer }, { utf8: key }]
}

function microseconds(ms: number): number {
  return Math.round(ms * 1000)
}

function outside(): NotInTransactionError {
  return new NotInTransactionError(
    'Expected an open transaction, but this connection has none: call beginTransaction() first, and do not commit or ' +
      'roll back before everything has been awaited. The claim was deleted again.',
  )
}
