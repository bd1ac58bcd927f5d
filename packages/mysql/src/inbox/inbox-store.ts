/* On MySQL and MariaDB a duplicate is an error, and a batch has a token; PostgreSQL counts the rows that a claim wrote. */
import { randomFillSync } from 'node:crypto'
import { InvalidMessageError, NotInTransactionError, type Session } from '@txbox/core'
import type { Claim, ClaimOptions, ClaimResult, InboxStore } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'
import {
  CLAIMING,
  CLAIM_ROUNDS,
  SAVING_RESULT,
  claimGone,
  duplicateClaim,
  hasExtras,
  unsettledClaim,
  type Row,
} from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, numberOf } from '../connection/errors.ts'
import { inboxStatements } from './inbox-statements.ts'
import { fill, json, microseconds, type Value } from '../connection/literals.ts'
import { boundLockWait, isHeldByAnother, lockWaitOf, type BoundStatements } from './lock-wait.ts'
import { rowBytes, rowsByPacket } from '../connection/rows-by-packet.ts'
import { byEngine, type ByEngine } from '../connection/server.ts'
import {
  assertInTransaction,
  execute,
  executeAnywhere,
  markWithClaim,
  type MysqlSession,
} from '../connection/session.ts'

type Sql = ReturnType<typeof inboxStatements>

/** The inbox table of MySQL and MariaDB. {@link InboxStore} documents the methods. */
export class MysqlInboxStore implements InboxStore {
  readonly #statements: ByEngine<Sql>

  constructor(tables: Tables) {
    this.#statements = byEngine(inboxStatements, tables)
  }

  claim(session: Session, claim: Claim, options: ClaimOptions = {}): Promise<ClaimResult> {
    const wait = lockWaitOf(session, options)
    return boundLockWait(session, wait, (statements) =>
      wait.isReported
        ? this.#claimReported(session, claim, { ...statements, ...options })
        : this.#claim(session, claim, { ...statements, ...options }),
    )
  }

  /** Like `#claim`, but does not wait if another transaction has an open claim of the key. */
  async #claimReported(
    session: Session,
    claim: Claim,
    statements: BoundStatements & Pick<ClaimOptions, 'beforeHandler'>,
  ): Promise<ClaimResult> {
    try {
      if (statements.canProbe) {
        const { rows } = await statements.send(this.#sql(session).readNoWait, keyOf(claim))
        if (columns.flag(rows[0], 'live')) return duplicateClaim(columns, rows[0]!)
      }
      return await this.#claim(session, claim, statements)
    } catch (error) {
      if (await isHeldByAnother(session, error)) return { status: 'in-flight' }
      throw error
    }
  }

  async #claim(
    session: Session,
    claim: Claim,
    { send, beforeHandler }: BoundStatements & Pick<ClaimOptions, 'beforeHandler'>,
  ): Promise<ClaimResult> {
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
      const mark = beforeHandler === true ? markWithClaim(session) : undefined
      try {
        const { inTransaction } = await sent
        if (inTransaction === false) await this.#refuse(session, key)
        ;(session as MysqlSession).marked = mark
        return { status: 'won' }
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

  async claimBatch(
    session: Session,
    claims: readonly Claim[],
    options: ClaimOptions & { readonly times: boolean },
  ): Promise<readonly ClaimResult[]> {
    if (claims.length === 0) return []
    const wait = lockWaitOf(session, options)
    const batch = this.#batchOf(session, claims)
    return boundLockWait(session, wait, async (statements) => {
      try {
        return await this.#claimBatch(session, claims, { ...options, ...statements, batch })
      } catch (error) {
        if (!wait.isReported || !(await isHeldByAnother(session, error))) throw error
      }
      // Another transaction has an open claim of one of the keys, and only single claims can show which. The failed
      // statement has written nothing, so only the rows of the earlier statements must be deleted.
      await this.#takeBackBatch(session, { ...batch, packets: batch.written })
      const results = new Map<Claim, ClaimResult>()
      for (const claim of batch.claims) {
        results.set(claim, await this.#claimReported(session, claim, statements))
      }
      return claims.map((claim) => results.get(claim)!)
    })
  }

  /** The rows are in the order of their keys. */
  #batchOf(session: Session, claims: readonly Claim[]): Batch {
    const sql = this.#sql(session)
    const extras = claims.some(hasExtras)
    const token = randomFillSync(Buffer.alloc(16))
    const consumer = Buffer.from(claims[0]!.consumer)
    const keyed = claims.map((claim) => ({ claim, key: Buffer.from(claim.key) }))
    keyed.sort((a, b) => Buffer.compare(a.key, b.key))
    const rows = keyed.map(({ claim, key }) => {
      const plain = [consumer, key, claim.correlationId ?? null, microseconds(claim.retentionMs)]
      return {
        key,
        row: extras
          ? fill(sql.claimBatchWithRow, [...plain, ...extrasOf(claim), token])
          : fill(sql.claimBatchRow, [...plain, token]),
      }
    })
    const { maxStatementBytes } = (session as MysqlSession).server
    const textOf = extras ? sql.claimBatchWith : sql.claimBatch
    const headBytes = textOf([]).length
    const packets = rowsByPacket(rows, headBytes, maxStatementBytes, rowBytes)
    refuseTooLong(packets, headBytes, maxStatementBytes)
    return { consumer, token, packets, written: [], textOf, claims: keyed.map(({ claim }) => claim) }
  }

  async #claimBatch(
    session: Session,
    claims: readonly Claim[],
    {
      batch,
      times,
      beforeHandler,
      send,
    }: BoundStatements & ClaimOptions & { readonly batch: Batch; readonly times: boolean },
  ): Promise<readonly ClaimResult[]> {
    const { consumer, token, packets, textOf } = batch
    let allNew = true
    for (const packet of packets) {
      const text = textOf(packet.map(({ row }) => row))
      const answer = await send(text, []).catch((error: unknown) => {
        // The transaction ended after an earlier packet, perhaps with a COMMIT.
        if (error instanceof NotInTransactionError && packet !== packets[0]) return undefined
        throw error
      })
      batch.written.push(packet)
      if (answer === undefined || answer.inTransaction === false) {
        await this.#takeBackBatch(session, batch)
        throw outside()
      }
      if (answer.insertId !== 0) allNew = false
    }
    if (allNew && !times) return claims.map(() => ({ status: 'won' }))

    let mark: ReturnType<typeof markWithClaim>
    const byKey = new Map<string, Row>()
    for (const packet of packets) {
      const asked = JSON.stringify(packet.map(({ key }) => key.toString('hex')))
      const reading = send(this.#sql(session).readBatch, [token, asked, consumer])
      if (beforeHandler === true) mark ??= markWithClaim(session)
      for (const row of (await reading).rows) byKey.set(columns.text(row, 'key').toLowerCase(), row)
    }
    const results = claims.map((claim): ClaimResult => {
      const row = byKey.get(Buffer.from(claim.key).toString('hex'))
      if (row === undefined) throw unsettledClaim(claim.consumer)
      const isOwn = columns.flag(row, 'is_own')
      return isOwn
        ? { status: 'won', processedAt: columns.date(row, 'processed_at') }
        : duplicateClaim(columns, row)
    })
    if (results.some(({ status }) => status === 'won')) (session as MysqlSession).marked = mark
    else mark?.end()
    return results
  }

  async saveResult(session: Session, claim: Pick<Claim, 'consumer' | 'key'>, result: string): Promise<void> {
    const values = [result, ...keyOf(claim)]
    const { affected } = await execute(session, SAVING_RESULT, this.#sql(session).saveResult, values)
    if (affected === 0) throw claimGone()
  }

  async find(session: Session, consumer: string, key: string): Promise<boolean> {
    await assertInTransaction(session)
    const doing = 'looking for the message in the inbox'
    const { rows } = await execute(session, doing, this.#sql(session).find, keyOf({ consumer, key }))
    return rows.length > 0
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

  /** Deletes a claim that is already committed, as the server's answer shows, and throws. */
  async #refuse(session: Session, key: readonly Value[]): Promise<never> {
    await executeAnywhere(session, CLAIMING, this.#sql(session).takeBack, key)
    throw outside()
  }

  /** Deletes all claims that this batch has made so far, even if the transaction has ended, perhaps with a COMMIT. */
  async #takeBackBatch(session: Session, { consumer, token, packets }: Batch): Promise<void> {
    for (const packet of packets) {
      const keys = packet.map(({ key }) => key)
      await executeAnywhere(session, CLAIMING, this.#sql(session).takeBackBatch, [consumer, token, keys])
    }
  }

  #sql(session: Session): Sql {
    return this.#statements[(session as MysqlSession).server.engine]
  }
}

type Packet = readonly { readonly key: Buffer; readonly row: string }[]

interface Batch {
  readonly consumer: Buffer
  /** Marks the rows that this batch has written. */
  readonly token: Buffer
  /** The claims, in the order of their keys. */
  readonly claims: readonly Claim[]
  readonly textOf: (rows: readonly string[]) => string
  readonly packets: readonly Packet[]
  /** The packets that the server has answered. */
  readonly written: Packet[]
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

function extrasOf({ result, contentHash }: Claim): Value[] {
  return [result ?? null, contentHash ?? null]
}

function keyOf({ consumer, key }: Pick<Claim, 'consumer' | 'key'>): readonly Value[] {
  return [{ utf8: consumer }, { utf8: key }]
}

function outside(): NotInTransactionError {
  return new NotInTransactionError(
    'Expected an open transaction, but this connection has none: call beginTransaction() first, and do not commit or ' +
      'roll back before everything has been awaited. The claim was deleted again.',
  )
}
