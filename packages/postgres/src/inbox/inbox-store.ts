/* PostgreSQL counts the rows that a claim wrote; on MySQL and MariaDB a duplicate is an error, and a batch has a token. */
import type { Session } from '@txbox/core'
import type {
  Claim,
  ClaimOptions,
  ClaimResult,
  HandlerClaim,
  HandlerClaims,
  HandlerGuard,
  InboxStore,
} from '@txbox/core/ports'
import {
  CLAIMING,
  CLAIM_ROUNDS,
  SAVING_RESULT,
  claimEachKeyOnce,
  claimGone,
  duplicateClaim,
  hasExtras,
  unsettledClaim,
  type TimedResult,
} from '@txbox/sql/stores'
import { inTurnOfConnection } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { inboxStatements } from './inbox-statements.ts'
import { execute, watch, write, type PostgresSession } from '../connection/session.ts'

export class PostgresInboxStore implements InboxStore {
  readonly #sql: ReturnType<typeof inboxStatements>

  constructor(schema: string) {
    this.#sql = inboxStatements(schema)
  }

  claim(session: Session, claim: Claim, options: ClaimOptions = {}): Promise<ClaimResult> {
    const { lockTimeoutMs } = options
    return lockTimeoutMs === undefined
      ? this.#claim(session, claim, options)
      : this.#within(session, lockTimeoutMs, () => this.#claim(session, claim, options))
  }

  async claimToHandle(session: Session, claim: Claim, options?: ClaimOptions): Promise<HandlerClaim> {
    const result = await this.claim(session, claim, options)
    if (result.status !== 'won') return result
    return { status: 'won', ...this.#guard(session, claim.consumer, [claim.key]) }
  }

  async #claim(session: Session, claim: Claim, { inFlight }: ClaimOptions): Promise<ClaimResult> {
    const key = [claim.consumer, claim.key]
    const plain = [...key, claim.correlationId ?? null, interval(claim.retentionMs)]
    const isReported = inFlight === 'report'
    const extras = isReported || hasExtras(claim)
    const values = extras ? [...plain, ...extrasOf(claim)] : plain
    const insert = isReported ? this.#sql.claimReported : extras ? this.#sql.claimWith : this.#sql.claim
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      if ((await write(session, CLAIMING, insert, values)) > 0) return { status: 'won' }

      const { rows } = await execute(session, CLAIMING, this.#sql.read, key)
      const found = rows[0]
      if (found !== undefined && columns.flag(found, 'live')) return duplicateClaim(columns, found)
      if (isReported && !(await this.#hasTurn(session, key))) return { status: 'in-flight' }
      const renew = extras ? this.#sql.renewWith : this.#sql.renew
      if (found !== undefined && (await write(session, CLAIMING, renew, values)) > 0) {
        return { status: 'won' }
      }
    }
    throw unsettledClaim(claim.consumer)
  }

  /** Returns whether this transaction has the lock of the key. */
  async #hasTurn(session: Session, key: readonly string[]): Promise<boolean> {
    const { rows } = await execute(session, CLAIMING, this.#sql.turn, key)
    return columns.flag(rows[0], 'free')
  }

  claimBatch(
    session: Session,
    claims: readonly Claim[],
    options: ClaimOptions = {},
  ): Promise<readonly TimedResult[]> {
    const { lockTimeoutMs } = options
    return lockTimeoutMs === undefined
      ? this.#claimBatch(session, claims, options)
      : this.#within(session, lockTimeoutMs, () => this.#claimBatch(session, claims, options))
  }

  async claimBatchToHandle(
    session: Session,
    claims: readonly Claim[],
    options?: ClaimOptions,
  ): Promise<HandlerClaims> {
    // The statement returns the instants in any case.
    const results = await claimEachKeyOnce(claims, (distinct) => this.claimBatch(session, distinct, options))
    const won = claims.filter((_, n) => results[n]!.status === 'won').map(({ key }) => key)
    return { results, ...this.#guard(session, claims[0]?.consumer, won) }
  }

  async #claimBatch(
    session: Session,
    claims: readonly Claim[],
    { inFlight }: ClaimOptions,
  ): Promise<readonly TimedResult[]> {
    const reported = inFlight === 'report'
    const extras = reported || claims.some(hasExtras)
    const text = reported
      ? this.#sql.claimBatchReported
      : extras
        ? this.#sql.claimBatchWith
        : this.#sql.claimBatch
    const results = new Map<string, TimedResult>()
    // Claims are sorted so that concurrent batches lock in the same order. Any order that is the same in every process
    // works; this one is by UTF-16 code units.
    let left = claims.toSorted((a, b) => (a.key < b.key ? -1 : 1))
    for (let round = 0; round < CLAIM_ROUNDS && left.length > 0; round++) {
      const [{ consumer, retentionMs }] = left as [Claim]
      const { rows } = await execute(session, CLAIMING, text, [
        consumer,
        left.map((claim) => claim.key),
        left.map((claim) => claim.correlationId ?? null),
        interval(retentionMs),
        ...(extras
          ? [
              left.map((claim) => claim.result ?? null),
              left.map(({ contentHash }) => hexadecimal(contentHash)),
            ]
          : []),
      ])
      for (const row of rows) {
        const [key, state] = [columns.text(row, 'key'), columns.text(row, 'state')]
        if (state === 'won')
          results.set(key, { status: 'won', processedAt: columns.date(row, 'processed_at') })
        if (state === 'duplicate') results.set(key, duplicateClaim(columns, row))
        if (state === 'in-flight') results.set(key, { status: 'in-flight' })
      }
      left = left.filter((claim) => !results.has(claim.key))
    }
    return claims.map((claim) => {
      const result = results.get(claim.key)
      if (result === undefined) throw unsettledClaim(claim.consumer)
      return result
    })
  }

  async saveResult(
    session: Session,
    { consumer, key }: Pick<Claim, 'consumer' | 'key'>,
    result: string,
  ): Promise<void> {
    const values = [consumer, key, result]
    if ((await write(session, SAVING_RESULT, this.#sql.saveResult, values)) === 0) throw claimGone()
  }

  async extend(
    session: Session,
    { consumer, key, result, retentionMs }: Claim & { readonly result: string },
    { lockTimeoutMs }: { readonly lockTimeoutMs: number },
  ): Promise<boolean> {
    const values = [consumer, key, result, interval(retentionMs)]
    const extend = (): Promise<number> => write(session, CLAIMING, this.#sql.extend, values)
    return (await this.#within(session, lockTimeoutMs, extend)) > 0
  }

  /** Runs statements with the setting `lock_timeout`. After an error, the setting is undone by the rollback. */
  #within<R>(session: Session, lockTimeoutMs: number, work: () => Promise<R>): Promise<R> {
    return inTurnOfConnection(session as PostgresSession, async () => {
      const { rows } = await execute(session, CLAIMING, this.#sql.bind, [String(Math.ceil(lockTimeoutMs))])
      const result = await work()
      await execute(session, CLAIMING, this.#sql.unbind, [columns.text(rows[0], 'before')])
      return result
    })
  }

  async find(session: Session, consumer: string, key: string): Promise<boolean> {
    const doing = 'looking for the message in the inbox'
    const { rows } = await execute(session, doing, this.#sql.find, [consumer, key])
    return rows.length > 0
  }

  async clock(session: Session): Promise<Date> {
    const { rows } = await execute(session, 'reading the clock of the database', this.#sql.clock, [])
    return columns.date(rows[0], 'now')
  }

  async remove(session: Session, consumer: string, key: string): Promise<boolean> {
    const doing = 'removing a claim from the inbox'
    const { rows } = await execute(session, doing, this.#sql.remove, [consumer, key])
    return columns.flag(rows[0], 'live')
  }

  async removeBatch(session: Session, consumer: string, keys: readonly string[]): Promise<void> {
    await execute(session, 'removing claims from the inbox', this.#sql.removeBatch, [consumer, keys])
  }

  /** The guard asks the server, after the handler, whether the claims still exist. */
  #guard(session: Session, consumer: string | undefined, keys: readonly string[]): HandlerGuard {
    const holds = async (): Promise<boolean> => {
      const doing = 'checking whether the claim still exists'
      const { rows } = await execute(session, doing, this.#sql.held, [consumer, keys])
      return columns.number(rows[0], 'held') === keys.length
    }
    return { run: (handler) => watch(session, handler, holds) }
  }
}

function extrasOf({ result, contentHash }: Claim): (string | null)[] {
  return [result ?? null, hexadecimal(contentHash)]
}

/** Encodes a hash in hexadecimal, so that no library changes the type of the bytes. */
function hexadecimal(hash: Uint8Array | undefined): string | null {
  return hash === undefined ? null : Buffer.from(hash).toString('hex')
}

/** Encodes an interval as text, which the server parses faster than it multiplies a number. */
function interval(ms: number): string {
  return `${ms} milliseconds`
}
