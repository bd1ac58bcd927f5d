import { TransactionConflictError } from '@txbox/core'
import type { DedupLeaseResult, DedupLeaseStore, DedupOwner } from '@txbox/core/ports'
import { CLAIM_ROUNDS } from '../inbox/claims.ts'
import type { Row, RowReader } from '../row-reader.ts'

const CLAIMING = 'claiming a key under a lease'
const COMPLETING = 'completing a claim under a lease'

/** What a claim writes. */
export interface NewLease {
  readonly leaseMs: number
  readonly contentHash: Uint8Array | undefined
}

/** How a database runs the statements. Each is its own transaction, is repeated after a conflict, and reports a change of the row. */
export interface DedupLeaseDatabase {
  readonly read: RowReader
  /** Inserts a claim if the key has none, live or expired. */
  insert(doing: string, owner: DedupOwner, lease: NewLease): Promise<boolean>
  /** Takes over an expired claim. */
  renew(doing: string, owner: DedupOwner, lease: NewLease): Promise<boolean>
  find(doing: string, owner: DedupOwner): Promise<Row | undefined>
  complete(
    doing: string,
    owner: DedupOwner,
    how: { readonly retentionMs: number; readonly result: string | undefined },
  ): Promise<boolean>
  release(doing: string, owner: DedupOwner): Promise<boolean>
  extend(doing: string, owner: DedupOwner, leaseMs: number): Promise<boolean>
}

/** The claims under a lease of any database. `DedupLeaseStore` documents the methods. */
export class SqlDedupLeaseStore implements DedupLeaseStore {
  readonly #database: DedupLeaseDatabase

  constructor(database: DedupLeaseDatabase) {
    this.#database = database
  }

  async begin(
    owner: DedupOwner,
    { leaseMs, contentHash }: { readonly leaseMs: number; readonly contentHash?: Uint8Array | undefined },
  ): Promise<DedupLeaseResult> {
    const lease = { leaseMs, contentHash }
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      if (await this.#database.insert(CLAIMING, owner, lease)) return { status: 'won' }
      const row = await this.#database.find(CLAIMING, owner)
      // The claim was released or collected meanwhile.
      if (row === undefined) continue
      if (this.#database.read.flag(row, 'live')) return this.#known(row)
      if (await this.#database.renew(CLAIMING, owner, lease)) return { status: 'won' }
    }
    throw new TransactionConflictError(
      `${CLAIMING} of consumer '${owner.consumer}': the claim changed ${CLAIM_ROUNDS} times in a row. Nothing was written; try again.`,
    )
  }

  #known(row: Row): DedupLeaseResult {
    const { read } = this.#database
    if (read.has(row, 'processed_at')) {
      const hash = read.optionalText(row, 'content_hash')
      return {
        status: 'done',
        firstProcessedAt: read.date(row, 'processed_at'),
        contentHash: hash === undefined ? undefined : Buffer.from(hash, 'hex'),
        result: read.optionalText(row, 'result'),
      }
    }
    // An earlier attempt of this call has won, and its answer was lost.
    if (read.flag(row, 'own')) return { status: 'won' }
    return { status: 'in-flight', remainingMs: Math.max(0, read.number(row, 'remaining_ms')) }
  }

  async complete(
    owner: DedupOwner,
    how: { readonly retentionMs: number; readonly result: string | undefined },
  ): Promise<boolean> {
    if (await this.#database.complete(COMPLETING, owner, how)) return true
    const { read } = this.#database
    const row = await this.#database.find(COMPLETING, owner)
    return read.flag(row, 'live') && read.flag(row, 'own') && read.has(row, 'processed_at')
  }

  release(owner: DedupOwner): Promise<boolean> {
    return this.#database.release('releasing a claim under a lease', owner)
  }

  extend(owner: DedupOwner, leaseMs: number): Promise<boolean> {
    return this.#database.extend('extending a lease', owner, leaseMs)
  }
}
