/*
 * PostgreSQL acquires leases with one statement and SKIP LOCKED, and takes lists of names and terms as arrays. MySQL
 * and MariaDB need a short transaction, and a condition for each lease.
 */
import type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from '@txbox/core/ports'
import { LeaseConnection } from '@txbox/sql/stores'
import type { StatementRoot, SqlResult } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { errors } from '../connection/errors.ts'
import { leaseStatements } from './lease-statements.ts'
import { atReadCommitted } from '../connection/run-alone.ts'

export class PostgresLeaseStore implements LeaseStore {
  readonly #sql: ReturnType<typeof leaseStatements>
  readonly #connection: LeaseConnection

  constructor(schema: string, source: StatementRoot) {
    this.#sql = leaseStatements(schema)
    const { root, db, statementTimeoutMs } = source
    this.#connection = new LeaseConnection(
      // Some libraries, such as Kysely, can open no connection outside of their pool. Then each statement borrows a
      // connection.
      async () =>
        root.connectApart?.(db, statementTimeoutMs) ?? {
          query: (text, values) => atReadCommitted(source, text, values),
          release: () => undefined,
        },
      errors,
    )
  }

  async acquire(
    names: readonly string[],
    request: LeaseRequest & { limit: number },
  ): Promise<readonly Lease[]> {
    const { owner, ttlMs, limit } = request
    await this.#run('acquiring leases', this.#sql.seed, [names])
    const { rows } = await this.#run('acquiring leases', this.#sql.acquire, [names, owner, ttlMs, limit])
    return rows.map((row) => ({
      name: columns.text(row, 'name'),
      owner,
      term: columns.bigint(row, 'term'),
      crashes: columns.number(row, 'crashes'),
      inFlight: columns.optionalText(row, 'in_flight'),
    }))
  }

  async renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    const [first] = leases
    if (first === undefined) return []
    const values = [...arraysOf(leases), first.owner, ttlMs]
    const { rows } = await this.#run('renewing leases', this.#sql.renew, values)
    const renewed = new Set(rows.map((row) => columns.text(row, 'name')))
    return leases.filter((lease) => renewed.has(lease.name))
  }

  async release(leases: readonly Lease[], cutOff: ReadonlySet<Lease> = new Set()): Promise<void> {
    const [first] = leases
    if (first === undefined) return
    const cutNames = leases.filter((lease) => cutOff.has(lease)).map(({ name }) => name)
    await this.#run('giving leases back', this.#sql.release, [...arraysOf(leases), first.owner, cutNames])
  }

  async holders(prefix: string): Promise<readonly LeaseHolder[]> {
    const { rows } = await this.#run('reading leases', this.#sql.holders, [prefix])
    return rows.map((row) => ({ name: columns.text(row, 'name'), owner: columns.text(row, 'owner') }))
  }

  async sweep(prefix: string, olderThanMs: number): Promise<void> {
    await this.#run('sweeping leases', this.#sql.sweep, [prefix, olderThanMs])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  #run(doing: string, text: string, values: readonly unknown[]): Promise<SqlResult> {
    return this.#connection.inTurn(doing, (query) => query(text, values))
  }
}

function arraysOf(leases: readonly Lease[]): [names: readonly string[], terms: readonly string[]] {
  return [leases.map((lease) => lease.name), leases.map((lease) => String(lease.term))]
}
