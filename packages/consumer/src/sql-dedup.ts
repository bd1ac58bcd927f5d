import { randomUUID } from 'node:crypto'
import {
  DedupStoreUnavailableError,
  InvalidOptionError,
  LIMITS,
  isTxboxError,
  type ConnectedDatabase,
  type DedupResult,
  type DedupStore,
} from '@txbox/core'
import type { DedupLeaseStore, DedupOwner } from '@txbox/core/ports'
import {
  DEDUP_RETRY_MS,
  OptionChecker,
  checkDedupResult,
  connectedPortsOf,
  dedupSettings,
  dedupTimes,
  dedupTokenOf,
  inboxKey,
  nameOf,
  reasonOf,
  type DedupSettings,
} from '@txbox/core/internal'

/** How long a statement may take. */
const ANSWER_MS = 5000

export interface SqlDedupOptions {
  /**
   * The result of `postgres({ db })` or `mysql({ db })`, whose tables have revision 13. Each call takes a connection of the pool for
   * one to three statements.
   */
  // oxlint-disable-next-line typescript/no-explicit-any -- the store opens no transactions of the user's type
  database: ConnectedDatabase<any>
  /** How long a mark is kept if the caller passes no time, 1 s to 100 years. @default 1 day */
  retentionMs?: number | undefined
  /**
   * How long a delivery excludes other deliveries of the message if the caller passes no time, 1 s to 1 h. A consumer passes
   * its own time, and extends the lease while the handler runs.
   *
   * @default 30_000
   */
  leaseMs?: number | undefined
  /**
   * The reaction of a consumer while the database cannot be reached. `'fail'`: the consumer emits `unavailable`, tries the messages
   * again later, and counts no attempt. `'process'`, only with an inbox in another database: the handler runs, and only the inbox
   * recognizes duplicates.
   *
   * @default 'fail'
   */
  onUnavailable?: 'fail' | 'process' | undefined
}

/** A dedup store in a database. The times that its methods take have defaults. */
export interface SqlDedup extends DedupStore {
  readonly onUnavailable: 'fail' | 'process'
  begin(claim: {
    readonly consumer: string
    readonly key: string
    readonly leaseMs?: number | undefined
  }): Promise<DedupResult>
  complete(
    token: string,
    how?: { readonly retentionMs?: number | undefined; readonly result?: string | undefined },
  ): Promise<'completed' | 'stale'>
  extend(token: string, leaseMs?: number): Promise<'extended' | 'stale'>
}

/**
 * Creates a dedup store in the table `dedup_leases` of PostgreSQL, MySQL or MariaDB, for handlers that cannot run in a transaction
 * because they call another system. The store remembers which messages were handled: `begin` before the handler, `complete` after it.
 * Each call commits by itself, and all times are by the database's clock. A garbage collector removes expired marks.
 *
 * The store is as reliable as the database: a mark that was confirmed is lost only with a failover that loses commits. A process that
 * dies between the handler's effect and `complete` leaves no mark, and the message is handled again after the lease. If a second
 * effect is not acceptable, and the effect is in this database, use an inbox.
 *
 * The methods throw `InvalidOptionError` or `InvalidMessageError` for wrong arguments, and `DedupStoreUnavailableError` for every
 * other failure, also when the tables lack the table.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function sqlDedup(options: SqlDedupOptions): SqlDedup {
  const where = 'sqlDedup'
  const check = new OptionChecker(where, options).known('database', 'retentionMs', 'leaseMs', 'onUnavailable')
  const ports = connectedPortsOf(where, options.database)
  return new SqlDedupStore(ports.dedupLeases({ statementTimeoutMs: ANSWER_MS }), dedupSettings(check))
}

class SqlDedupStore implements SqlDedup {
  readonly onUnavailable: 'fail' | 'process'
  readonly #leases: DedupLeaseStore
  readonly #settings: DedupSettings

  constructor(leases: DedupLeaseStore, settings: DedupSettings) {
    this.onUnavailable = settings.onUnavailable
    this.#leases = leases
    this.#settings = settings
  }

  async begin(claim: {
    readonly consumer: string
    readonly key: string
    readonly leaseMs?: number | undefined
  }): Promise<DedupResult> {
    const check = new OptionChecker('sqlDedup, begin', claim).known('consumer', 'key', 'leaseMs')
    const consumer = check.text('consumer', { max: LIMITS.consumerCharacters })
    const { leaseMs } = dedupTimes(check, this.#settings)
    // The key of an inbox may be a list, but the key of a dedup store may not.
    const { stored } = inboxKey(typeof claim.key === 'string' ? claim.key : undefined, consumer)
    const owner = { consumer, key: stored, token: randomUUID() }
    const found = await answered(this.#leases.begin(owner, { leaseMs })).catch((error: unknown) => {
      // The lost statement may have won, and the message would not be handled until the lease has passed.
      this.#leases.release(owner).catch(() => undefined)
      throw error
    })
    if (found.status === 'won') {
      return { status: 'won', token: owner.token + JSON.stringify([consumer, stored]) }
    }
    if (found.status === 'in-flight') {
      return { status: 'in-flight', retryAfterMs: Math.min(found.remainingMs, DEDUP_RETRY_MS) }
    }
    const { status, firstProcessedAt, result } = found
    return { status, firstProcessedAt, ...(result !== undefined && { result: JSON.parse(result) as string }) }
  }

  async complete(
    token: string,
    how: { readonly retentionMs?: number | undefined; readonly result?: string | undefined } = {},
  ): Promise<'completed' | 'stale'> {
    const check = new OptionChecker('complete', how).known('retentionMs', 'result')
    const owner = ownerOf('complete', token)
    checkDedupResult(how.result)
    const { retentionMs } = dedupTimes(check, this.#settings)
    // As JSON, a text may contain a NUL, which PostgreSQL's type text cannot hold.
    const result = how.result === undefined ? undefined : JSON.stringify(how.result)
    const isHeld = await answered(this.#leases.complete(owner, { retentionMs, result }))
    return isHeld ? 'completed' : 'stale'
  }

  async release(token: string): Promise<'released' | 'stale'> {
    const owner = ownerOf('release', token)
    return (await answered(this.#leases.release(owner))) ? 'released' : 'stale'
  }

  async extend(token: string, leaseMs?: number): Promise<'extended' | 'stale'> {
    const owner = ownerOf('extend', token)
    const times = dedupTimes(new OptionChecker('extend', { leaseMs }), this.#settings)
    return (await answered(this.#leases.extend(owner, times.leaseMs))) ? 'extended' : 'stale'
  }
}

function ownerOf(where: string, token: unknown): DedupOwner {
  const { owner, claim } = dedupTokenOf(where, token)
  try {
    const [consumer, key] = JSON.parse(claim) as [string, string]
    return { consumer, key, token: owner }
  } catch {
    throw new InvalidOptionError(`${where}: expected a token of begin of sqlDedup, not ${nameOf(token)}.`)
  }
}

/** @throws {DedupStoreUnavailableError} for every failure that one message does not cause by itself. */
async function answered<T>(running: Promise<T>): Promise<T> {
  try {
    return await running
  } catch (error) {
    if (isTxboxError(error) && error.code === 'TXBOX_INVALID_MESSAGE') throw error
    throw new DedupStoreUnavailableError(
      `The database of sqlDedup did not run the statement: ${reasonOf(error)}`,
      {
        cause: error,
      },
    )
  }
}
