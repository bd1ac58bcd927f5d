/* PostgreSQL counts the rows that a claim wrote; on MySQL and MariaDB a duplicate is an error, and a batch has a token. */
import type { Claim, ClaimResult, InboxStore, Session } from '@txbox/core'
import { CLAIMING, CLAIM_ROUNDS, takenClaim, unsettledClaim } from '@txbox/sql'
import { columns } from './columns.ts'
import type { inboxStatements } from './inbox-statements.ts'
import { execute, write, type PostgresSession } from './session.ts'

/** The inbox table of PostgreSQL. {@link InboxStore} documents the methods. */
export class PostgresInboxStore implements InboxStore {
  readonly #sql: ReturnType<typeof inboxStatements>

  constructor(statements: ReturnType<typeof inboxStatements>) {
    this.#sql = statements
  }

  async claim(session: Session, claim: Claim): Promise<ClaimResult> {
    const key = [claim.consumer, claim.key]
    const values = [...key, claim.correlationId ?? null, interval(claim.retentionMs)]
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      if ((await write(session, CLAIMING, this.#sql.claim, values)) > 0) return this.#won(session, claim)

      const { rows } = await execute(session, CLAIMING, this.#sql.read, key)
      const found = rows[0]
      if (found !== undefined && columns.flag(found, 'live')) return takenClaim(columns, found)
      if (found !== undefined && (await write(session, CLAIMING, this.#sql.renew, values)) > 0) {
        return this.#won(session, claim)
      }
    }
    throw unsettledClaim(claim.consumer)
  }

  async claimBatch(session: Session, claims: readonly Claim[]): Promise<readonly ClaimResult[]> {
    const results = new Map<string, ClaimResult>()
    // Any order that is the same in every process works; this one is by UTF-16 code units.
    let left = claims.toSorted((a, b) => (a.key < b.key ? -1 : 1))
    for (let round = 0; round < CLAIM_ROUNDS && left.length > 0; round++) {
      const [{ consumer, retentionMs }] = left as [Claim]
      const { rows } = await execute(session, CLAIMING, this.#sql.claimBatch, [
        consumer,
        left.map((claim) => claim.key),
        left.map((claim) => claim.correlationId ?? null),
        interval(retentionMs),
      ])
      for (const row of rows) {
        const key = row['key'] as string
        if (row['state'] === 'won')
          results.set(key, { status: 'won', processedAt: columns.date(row, 'processed_at') })
        if (row['state'] === 'taken') results.set(key, takenClaim(columns, row))
      }
      left = left.filter((claim) => !results.has(claim.key))
    }
    const won = [...results].filter(([, { status }]) => status === 'won').map(([key]) => key)
    if (won.length > 0) this.#hold(session, claims[0]!.consumer, won)
    return claims.map((claim) => {
      const result = results.get(claim.key)
      if (result === undefined) throw unsettledClaim(claim.consumer)
      return result
    })
  }

  async find(session: Session, consumer: string, key: string): Promise<boolean> {
    const { rows } = await execute(session, 'looking for the message in the inbox', this.#sql.find, [
      consumer,
      key,
    ])
    return rows.length > 0
  }

  async remove(session: Session, consumer: string, key: string): Promise<boolean> {
    const { rows } = await execute(session, 'removing a claim from the inbox', this.#sql.remove, [
      consumer,
      key,
    ])
    return columns.flag(rows[0], 'live')
  }

  #won(session: Session, { consumer, key }: Claim): ClaimResult {
    this.#hold(session, consumer, [key])
    return { status: 'won' }
  }

  /** Lets the session check, after the handler, whether the claims still exist. */
  #hold(session: Session, consumer: string, keys: readonly string[]): void {
    ;(session as PostgresSession).holds = async () => {
      const doing = 'checking whether the claim still exists'
      const { rows } = await execute(session, doing, this.#sql.held, [consumer, keys])
      return columns.number(rows[0], 'held') === keys.length
    }
  }
}

/** Text, because the server parses text faster than it multiplies a number. */
function interval(ms: number): string {
  return `${ms} milliseconds`
}
