/* On MySQL and MariaDB a token marks the claims that a batch has made; PostgreSQL returns them. */
import { randomFillSync } from 'node:crypto'
import { InvalidMessageError, NotInTransactionError, type Session } from '@txbox/core'
import type { Claim, ClaimOptions } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'
import {
  CLAIMING,
  duplicateClaim,
  hasExtras,
  unsettledClaim,
  type Row,
  type TimedResult,
} from '@txbox/sql/stores'
import type { CheckedSnapshot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { fill, microseconds } from '../connection/literals.ts'
import { rowBytes, rowsByPacket } from '../connection/rows-by-packet.ts'
import type { ByEngine } from '../connection/server.ts'
import { executeAnywhere, type MysqlSession } from '../connection/session.ts'
import { boundLockWait, isHeldByAnother, lockWaitOf, type BoundStatements } from './lock-wait.ts'
import {
  extrasOf,
  keyOf,
  outside,
  withoutMark,
  type InboxSql,
  type Marking,
  type SingleClaims,
} from './single-claims.ts'

export interface MarkedResults {
  readonly results: readonly TimedResult[]
  readonly mark?: CheckedSnapshot | undefined
}

export interface BatchOptions {
  /** Whether the results contain the instants of claims that were won, which takes a statement more. */
  readonly isTimed: boolean
  readonly marking: Marking
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

/** Makes all claims of a batch together. */
export class BatchClaims {
  readonly #statements: ByEngine<InboxSql>
  readonly #singles: SingleClaims

  constructor(statements: ByEngine<InboxSql>, singles: SingleClaims) {
    this.#statements = statements
    this.#singles = singles
  }

  async claim(
    session: Session,
    claims: readonly Claim[],
    options: ClaimOptions,
    how: BatchOptions,
  ): Promise<MarkedResults> {
    if (claims.length === 0) return { results: [] }
    const wait = lockWaitOf(session, options)
    const batch = this.#batchOf(session, claims)
    return boundLockWait(session, wait, async (statements) => {
      try {
        return await this.#claim(session, claims, batch, { ...how, ...statements })
      } catch (error) {
        if (!wait.isReported || !(await isHeldByAnother(session, error))) throw error
      }
      // Another transaction has an open claim of one of the keys, and only single claims can show which. The failed
      // statement has written nothing, so only the rows of the earlier statements must be deleted.
      await this.#takeBack(session, { ...batch, packets: batch.written })
      const results = new Map<Claim, TimedResult>()
      for (const claim of batch.claims)
        results.set(claim, await this.#reported(session, claim, statements, how))
      return { results: claims.map((claim) => results.get(claim)!) }
    })
  }

  async #reported(
    session: Session,
    claim: Claim,
    statements: BoundStatements,
    { isTimed }: BatchOptions,
  ): Promise<TimedResult> {
    const result = await this.#singles.reported(session, claim, statements, withoutMark)
    if (result.status !== 'won') return result
    if (!isTimed) return { status: 'won' }
    const { rows } = await statements.send(this.#sql(session).read, keyOf(claim))
    return { status: 'won', processedAt: columns.date(rows[0], 'processed_at') }
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

  async #claim(
    session: Session,
    claims: readonly Claim[],
    batch: Batch,
    { isTimed, marking, send }: BoundStatements & BatchOptions,
  ): Promise<MarkedResults> {
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
        await this.#takeBack(session, batch)
        throw outside()
      }
      if (answer.insertId !== 0) allNew = false
    }
    if (allNew && !isTimed) return { results: claims.map(() => ({ status: 'won' })) }

    let mark: CheckedSnapshot | undefined
    const byKey = new Map<string, Row>()
    for (const packet of packets) {
      const asked = JSON.stringify(packet.map(({ key }) => key.toString('hex')))
      const reading = send(this.#sql(session).readBatch, [token, asked, consumer])
      mark ??= marking(session)
      for (const row of (await reading).rows) byKey.set(columns.text(row, 'key').toLowerCase(), row)
    }
    const results = claims.map((claim): TimedResult => {
      const row = byKey.get(Buffer.from(claim.key).toString('hex'))
      if (row === undefined) throw unsettledClaim(claim.consumer)
      const isOwn = columns.flag(row, 'is_own')
      return isOwn
        ? { status: 'won', processedAt: columns.date(row, 'processed_at') }
        : duplicateClaim(columns, row)
    })
    if (results.some(({ status }) => status === 'won')) return { results, mark }
    mark?.end()
    return { results }
  }

  /** Deletes all claims that this batch has made so far, even if the transaction has ended, perhaps with a COMMIT. */
  async #takeBack(session: Session, { consumer, token, packets }: Batch): Promise<void> {
    for (const packet of packets) {
      const keys = packet.map(({ key }) => key)
      await executeAnywhere(session, CLAIMING, this.#sql(session).takeBackBatch, [consumer, token, keys])
    }
  }

  #sql(session: Session): InboxSql {
    return this.#statements[(session as MysqlSession).server.engine]
  }
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
