/*
 * MySQL and MariaDB acquire leases in a short transaction, and need a condition for each lease. PostgreSQL acquires
 * leases with one statement, and takes lists as arrays.
 */
import type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from '@txbox/core/ports'
import { LeaseConnection, type Row } from '@txbox/sql/stores'
import type { OwnConnection, SqlResult } from '@txbox/sql/transactions'
import type { Tables } from '../connection/identifiers.ts'
import { columns } from '../connection/columns.ts'
import { errors } from '../connection/errors.ts'
import { leaseStatements } from './lease-statements.ts'
import { fill, microseconds, type Value } from '../connection/literals.ts'
import { committingConnection } from '../connection/own-connection.ts'
import type { MysqlStatementRoot } from '../connection/run-alone.ts'
import { refuseSettings } from '../connection/session-settings.ts'
import { sessionStatements } from '../connection/session-statements.ts'
import { shortTransactionStatements } from '../connection/short-transaction-statements.ts'
import { shortTransaction } from '../connection/short-transaction.ts'
import { withTimeLimit } from '../connection/time-limit-statements.ts'

/**
 * The table of leases of MySQL and MariaDB. {@link LeaseStore} documents the methods.
 *
 * A relay can be cut off between any two statements. Therefore every operation that a relay repeats regularly is a
 * single statement in its own transaction, so that it leaves no lock behind. Such a lock would keep a successor from
 * acquiring the leases.
 */
export class MysqlLeaseStore implements LeaseStore {
  readonly #sql: ReturnType<typeof leaseStatements>
  readonly #source: MysqlStatementRoot
  readonly #connection: LeaseConnection

  constructor(tables: Tables, source: MysqlStatementRoot) {
    this.#sql = leaseStatements(tables)
    this.#source = source
    // Closing has the same timeout, so that a broken connection does not stay in use when it is released.
    this.#connection = new LeaseConnection(() => openChecked(source), errors)
  }

  async acquire(
    names: readonly string[],
    request: LeaseRequest & { limit: number },
  ): Promise<readonly Lease[]> {
    const { owner, ttlMs, limit } = request
    if (names.length === 0) return []
    const asked = names.map((name) => Buffer.from(name))
    if (!(await this.#seed(asked))) return []
    const doing = 'acquiring leases'
    const acquire = (query: OwnConnection['query']): Promise<readonly Lease[]> =>
      shortTransaction(query, this.#source, async (run) => {
        const { rows } = await run(this.#sql.free, [asked, limit])
        if (rows.length === 0) return []
        const free = rows.map((row) => nameOf(row))
        await run(this.#sql.take, [Buffer.from(owner), microseconds(ttlMs), free])
        return rows.map((row, index) => ({
          name: free[index]!.toString(),
          owner,
          term: columns.bigint(row, 'term') + 1n,
          crashes: columns.number(row, 'crashes'),
          inFlight: columns.optionalText(row, 'in_flight'),
        }))
      })
    return this.#connection.inTurn(doing, acquire)
  }

  async renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    const [first] = leases
    if (first === undefined) return []
    const doing = 'renewing leases'
    const owner = Buffer.from(first.owner)
    const values = [microseconds(ttlMs), owner]
    const { affected } = await this.#write(doing, this.#sql.renew(this.#rowsOf(leases)), values)
    if (affected === leases.length) return leases
    // A lease that is held now was also held a moment ago, when the UPDATE renewed it.
    const { rows } = await this.#read(doing, this.#sql.held(this.#rowsOf(leases)), [owner])
    const renewed = new Set(rows.map((row) => columns.key(row, 'name')))
    return leases.filter((lease) => renewed.has(lease.name))
  }

  async release(leases: readonly Lease[], cutOff: ReadonlySet<Lease> = new Set()): Promise<void> {
    const [first] = leases
    if (first === undefined) return
    const cut = leases.filter((lease) => cutOff.has(lease))
    const rows = this.#rowsOf(leases)
    const text = cut.length === 0 ? this.#sql.release(rows) : this.#sql.releaseCutOff(rows, this.#rowsOf(cut))
    await this.#write('giving leases back', text, [Buffer.from(first.owner)])
  }

  async holders(prefix: string): Promise<readonly LeaseHolder[]> {
    const { rows } = await this.#read('reading leases', this.#sql.holders, startsWith(prefix))
    return rows.map((row) => ({ name: columns.key(row, 'name'), owner: columns.key(row, 'owner') }))
  }

  async sweep(prefix: string, olderThanMs: number): Promise<void> {
    const doing = 'sweeping leases'
    const ageUs = microseconds(olderThanMs)
    const { rows } = await this.#read(doing, this.#sql.unused, [...startsWith(prefix), ageUs])
    if (rows.length > 0) await this.#write(doing, this.#sql.sweep, [rows.map(nameOf), ageUs])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  /** Adds the names that have never been leased. @returns whether any of the names may be free. */
  async #seed(names: readonly Buffer[]): Promise<boolean> {
    const doing = 'acquiring leases'
    const { rows } = await this.#read(doing, this.#sql.known, [names])
    const known = new Set(rows.map((row) => columns.key(row, 'name')))
    const rowsToAdd = names
      .filter((name) => !known.has(name.toString()))
      .sort((a, b) => Buffer.compare(a, b))
      .map((name) => fill(this.#sql.seedRow, [name]))
    if (rowsToAdd.length === 0) return rows.some((row) => columns.flag(row, 'free'))
    await this.#write(doing, this.#sql.seed(rowsToAdd), [])
    return true
  }

  #rowsOf(leases: readonly Lease[]): readonly string[] {
    return leases.map(({ name, term }) => fill(this.#sql.heldRow, [Buffer.from(name), term]))
  }

  #read(doing: string, text: string, values: readonly Value[]): Promise<SqlResult> {
    return this.#connection.inTurn(doing, async (query) => query(await this.#withTimeLimit(text, values), []))
  }

  #write(doing: string, text: string, values: readonly Value[]): Promise<SqlResult> {
    return this.#connection.inTurn(doing, async (query) => {
      await query(shortTransactionStatements.readCommitted, [])
      return query(await this.#withTimeLimit(text, values), [])
    })
  }

  async #withTimeLimit(text: string, values: readonly Value[]): Promise<string> {
    const { engine } = await this.#source.server()
    return withTimeLimit(fill(text, values), engine, this.#source.statementTimeoutMs)
  }
}

/** Opens a connection, and checks its settings: a pool may have changed them since the relay started. */
async function openChecked(source: MysqlStatementRoot): Promise<OwnConnection> {
  const connection = await committingConnection(source, source.statementTimeoutMs)
  try {
    const { rows } = await connection.query(sessionStatements.settings, [])
    refuseSettings(rows[0])
    return connection
  } catch (error) {
    connection.release(true)
    throw error
  }
}

function nameOf(row: Row): Buffer {
  return Buffer.from(columns.key(row, 'name'))
}

function startsWith(prefix: string): readonly Value[] {
  const bytes = Buffer.from(prefix)
  return [bytes.byteLength, bytes]
}
