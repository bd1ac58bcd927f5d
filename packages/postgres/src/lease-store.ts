import type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from '@txbox/core'
import type { OwnConnection, RootAdapter, SqlResult } from '@txbox/sql'
import { isConflict, translate } from './errors.ts'
import type { leaseStatements } from './lease-statements.ts'
import { runAtReadCommitted, type Source } from './run-alone.ts'

const ATTEMPTS = 5

/** A relay gives up earlier, after a third of its lease; this is so that a dead connection does not stay. */
const STATEMENT_TIMEOUT_MS = 5000

/** The table of leases of PostgreSQL. The contract is that of the port. */
export class PostgresLeaseStore implements LeaseStore {
  readonly #sql: ReturnType<typeof leaseStatements>
  readonly #source: Source
  #connection: Promise<OwnConnection> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #underWay = 0

  constructor(statements: ReturnType<typeof leaseStatements>, root: RootAdapter, db: unknown) {
    this.#sql = statements
    this.#source = { root, db, statementTimeoutMs: STATEMENT_TIMEOUT_MS }
  }

  async acquire(
    names: readonly string[],
    request: LeaseRequest & { limit: number },
  ): Promise<readonly Lease[]> {
    const { owner, ttlMs, limit } = request
    await this.#run('acquiring leases', this.#sql.seed, [names])
    const { rows } = await this.#run('acquiring leases', this.#sql.acquire, [names, owner, ttlMs, limit])
    return rows.map((row) => ({
      name: row['name'] as string,
      owner,
      term: BigInt(row['term'] as string),
      crashes: Number(row['crashes']),
      inFlight: (row['in_flight'] as string | null) ?? undefined,
    }))
  }

  async renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    const [first] = leases
    if (first === undefined) return []
    const { rows } = await this.#run('renewing leases', this.#sql.renew, [
      ...mine(leases),
      first.owner,
      ttlMs,
    ])
    const renewed = new Set(rows.map((row) => row['name']))
    return leases.filter((lease) => renewed.has(lease.name))
  }

  async release(leases: readonly Lease[], cutOff: ReadonlySet<Lease> = new Set()): Promise<void> {
    const [first] = leases
    if (first === undefined) return
    const cutNames = leases.filter((lease) => cutOff.has(lease)).map(({ name }) => name)
    await this.#run('giving leases back', this.#sql.release, [...mine(leases), first.owner, cutNames])
  }

  async holders(prefix: string): Promise<readonly LeaseHolder[]> {
    const { rows } = await this.#run('reading leases', this.#sql.holders, [prefix])
    return rows.map((row) => ({ name: row['name'] as string, owner: row['owner'] as string }))
  }

  async sweep(prefix: string, olderThanMs: number): Promise<void> {
    await this.#run('sweeping leases', this.#sql.sweep, [prefix, olderThanMs])
  }

  async close(): Promise<void> {
    const connection = this.#connection
    const broken = this.#underWay > 0
    this.#connection = undefined
    this.#last = Promise.resolve()
    // Nobody waits for it: a connection that is still being opened may never be.
    void connection?.then((open) => open.release(broken)).catch(() => undefined)
  }

  /** One statement after the other: a connection takes one at a time. */
  async #run(doing: string, text: string, values: readonly unknown[]): Promise<SqlResult> {
    const turn = this.#last.then(() => this.#runNow(doing, text, values))
    this.#last = turn.catch(() => undefined)
    return turn
  }

  async #runNow(doing: string, text: string, values: readonly unknown[]): Promise<SqlResult> {
    if (this.#source.root.library === 'kysely') return runAtReadCommitted(this.#source, doing, text, values)
    const { root, db } = this.#source
    const connecting = (this.#connection ??= root.connectApart(db, STATEMENT_TIMEOUT_MS))
    this.#underWay++
    try {
      const { query } = await connecting
      for (let attempt = 1; ; attempt++) {
        try {
          return await query(text, values)
        } catch (error) {
          // A strict default isolation: another relay's round came in between. Each statement is harmless to repeat.
          if (attempt === ATTEMPTS || !isConflict(error)) throw error
        }
      }
    } catch (error) {
      // Whatever it was, a fresh connection is the safe choice: leases are renewed rarely.
      if (this.#connection === connecting) {
        this.#connection = undefined
        void connecting.then((open) => open.release(true)).catch(() => undefined)
      }
      throw translate(error, doing)
    } finally {
      this.#underWay--
    }
  }
}

function mine(leases: readonly Lease[]): [names: readonly string[], terms: readonly string[]] {
  return [leases.map((lease) => lease.name), leases.map((lease) => String(lease.term))]
}
