/*
 * PostgreSQL locks rows by one statement for each table, which may be sent together with BEGIN. MySQL and MariaDB need the
 * lease and the rows in statements of their own.
 */
import { TransactionAbortedError, type Session } from '@txbox/core'
import type {
  Lease,
  LocalAcceptance,
  LocalMessage,
  LocalRead,
  LocalRow,
  LocalSettlement,
  LocalShard,
  LocalStore,
  LocalWork,
  ReadLimits,
} from '@txbox/core/ports'
import { dueMessages } from '@txbox/sql/stores'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { rowOf, rowsOf } from '../connection/integer-arrays.ts'
import { runAtReadCommitted } from '../connection/run-alone.ts'
import { execute, write, type PostgresSession } from '../connection/session.ts'
import { fence } from '../relay/relay-outbox.ts'
import { relayStatements } from '../relay/relay-statements.ts'
import { localParkedStatements } from './local-parked-statements.ts'
import { LocalReads, placesOf } from './local-reads.ts'
import { LocalSettlements, scope } from './local-settlements.ts'
import { localStatements } from './local-statements.ts'

const LOCKING = 'locking the message of a local consumer'
const REMOVING = 'removing the message of a local consumer'

/** The number of keys that are examined at a time. */
const HEAL_KEYS = 10_000

/** The messages of local consumers on PostgreSQL. `LocalStore` documents the public methods. */
export class PostgresLocalStore implements LocalStore {
  readonly #sql: {
    readonly waiting: ReturnType<typeof localStatements>
    readonly parked: ReturnType<typeof localParkedStatements>
  }
  readonly #leases: Pick<ReturnType<typeof relayStatements>, 'note' | 'survived'>
  readonly #source: StatementRoot
  readonly #reads: LocalReads
  readonly #settlements: LocalSettlements
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<string, string>()

  constructor(schema: string, source: StatementRoot) {
    this.#sql = { waiting: localStatements(schema), parked: localParkedStatements(schema) }
    this.#leases = relayStatements(schema)
    this.#source = source
    this.#reads = new LocalReads(this.#sql, source)
    this.#settlements = new LocalSettlements(this.#sql, source)
  }

  get generation(): number {
    return this.#reads.generation
  }

  work(shards: readonly LocalShard[]): Promise<readonly LocalWork[]> {
    return this.#reads.work(shards)
  }

  read(
    at: LocalShard,
    limits: ReadLimits,
    how: { readonly after: bigint | undefined; readonly without: readonly string[] },
  ): Promise<LocalRead> {
    return this.#reads.read(at, limits, how)
  }

  async readDue(lease: Lease, at: LocalShard, limits: ReadLimits): Promise<readonly LocalMessage[]> {
    const { shard, consumer } = at
    // A message that another transaction has locked cannot be put back behind its predecessor, and is found again.
    const putBack = new Set<string>()
    const heads = await dueMessages(
      columns,
      async () => {
        const due = await this.#reads.query(this.#sql.parked.due, [shard, limits.messages, consumer])
        return due.filter((row) => !putBack.has(columns.text(row, 'place')))
      },
      (rows) => {
        for (const row of rows) putBack.add(columns.text(row, 'place'))
        return this.#settlements.follow(lease, at, placesOf(rows))
      },
    )
    return this.#reads.readHeads(at, limits, heads)
  }

  readSuspect(at: LocalShard, limits: ReadLimits): Promise<LocalMessage | undefined> {
    return this.#reads.readSuspect(at, limits)
  }

  async lock(
    session: Session,
    lease: Lease,
    at: LocalShard,
    rows: readonly LocalRow[],
  ): Promise<readonly LocalRow[]> {
    const locked = new Set<LocalRow>()
    for (const where of ['waiting', 'parked'] as const) {
      const wanted = rows.filter((row) => row.in === where)
      if (wanted.length === 0) continue
      for (const row of await this.#lockIn(session, where, wanted, scope(lease, at))) locked.add(row)
    }
    return rows.filter((row) => locked.has(row))
  }

  async #lockIn(
    session: Session,
    where: LocalRow['in'],
    rows: readonly LocalRow[],
    scope: readonly unknown[],
  ): Promise<readonly LocalRow[]> {
    const [only] = rows
    const { waiting } = this.#sql
    const isOne = where === 'waiting' && rows.length === 1
    const sql = isOne ? { lock: waiting.lockOne, lockUnseen: waiting.lockOneUnseen } : this.#sql[where]
    const values = [...scope, ...(isOne ? rowOf(only!) : rowsOf(rows))]
    if ((session as PostgresSession).opening !== undefined) {
      const count = await write(session, LOCKING, sql.lockUnseen, values)
      if (count === rows.length) return rows
      if (count === 0) return []
    }
    // Locks again the rows that the transaction has locked already.
    const { rows: found } = await execute(session, LOCKING, sql.lock, values)
    const seqs = new Set(found.map((row) => columns.text(row, 'seq')))
    return rows.filter(({ seq }) => seqs.has(String(seq)))
  }

  async remove(session: Session, at: LocalShard, rows: readonly LocalRow[]): Promise<void> {
    for (const where of ['waiting', 'parked'] as const) {
      const wanted = rows.filter((row) => row.in === where)
      if (wanted.length === 0) continue
      const isOne = where === 'waiting' && wanted.length === 1
      const text = isOne ? this.#sql.waiting.removeOne : this.#sql[where].remove
      const values = [at.consumer, at.shard, ...(isOne ? rowOf(wanted[0]!) : rowsOf(wanted))]
      const { rows: removed } = await execute(session, REMOVING, text, values)
      if (removed.length === wanted.length) continue
      throw missing(at, removed.length, wanted.length)
    }
    this.#reads.scans.deleted(at, rows.length)
  }

  async settle(lease: Lease, at: LocalShard, settlement: LocalSettlement): Promise<readonly LocalRow[]> {
    const left = await this.#settlements.settle(lease, at, settlement)
    const { accepted, refused, behind } = settlement
    const gone = [...accepted, ...refused.map(({ row }) => row), ...behind].filter(
      (row) => row.in === 'waiting',
    )
    this.#reads.scans.deleted(at, gone.length)
    return left
  }

  async acceptTogether(acceptances: readonly LocalAcceptance[]): Promise<readonly (readonly LocalRow[])[]> {
    const left = await this.#settlements.acceptTogether(acceptances)
    for (const { at, rows } of acceptances) this.#reads.scans.deleted(at, rows.length)
    return left
  }

  async release(lease: Lease, at: LocalShard, keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    await this.#settlements.run(lease, [
      { text: this.#sql.parked.release, values: [...scope(lease, at), keys] },
    ])
  }

  async healKeys(lease: Lease, at: LocalShard): Promise<number> {
    const place = `${at.shard} ${at.consumer}`
    const values = [...scope(lease, at), this.#healed.get(place) ?? '', HEAL_KEYS]
    const [rows] = await this.#settlements.run(lease, [{ text: this.#sql.parked.heal, values }])
    const row = rows![0]
    if (columns.number(row, 'keys') < HEAL_KEYS) this.#healed.delete(place)
    else this.#healed.set(place, columns.text(row, 'last'))
    return columns.number(row, 'healed')
  }

  suspect(lease: Lease, at: LocalShard, rows: readonly LocalRow[]): Promise<readonly LocalRow[]> {
    return this.#settlements.suspect(lease, at, rows)
  }

  async isKeyUnlocked({ consumer, shard }: LocalShard, key: string): Promise<boolean> {
    const [row] = await this.#reads.query(this.#sql.waiting.isUnlocked, [consumer, shard, key])
    return columns.flag(row, 'unlocked')
  }

  async handled(consumer: string, types: readonly string[]): Promise<void> {
    if (types.length === 0) return
    const doing = 'looking for messages that had no handler'
    await runAtReadCommitted(this.#source, doing, this.#sql.parked.handled, [consumer, types])
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const values = [...fence(lease), inFlight ?? null]
    const doing = 'recording messages in flight'
    const { rows } = await runAtReadCommitted(this.#source, doing, this.#leases.note, values)
    return rows.length > 0
  }

  async countDue(consumer: string, limit: number): Promise<number> {
    const [row] = await this.#reads.query(this.#sql.waiting.countDue, [consumer, limit])
    return Math.min(limit, columns.number(row, 'due'))
  }

  async survived(lease: Lease): Promise<void> {
    await runAtReadCommitted(this.#source, 'resetting the crash count', this.#leases.survived, fence(lease))
  }
}

function missing({ consumer }: LocalShard, found: number, wanted: number): TransactionAbortedError {
  return new TransactionAbortedError(
    `${REMOVING} '${consumer}': only ${found} of ${wanted} messages were still there. The transaction must roll back: otherwise ` +
      'they would be handled twice.',
  )
}
