import type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from '@txbox/core'
import type { OwnConnection, SqlResult } from '@txbox/sql'
import { bounded, serverTimeoutS } from './bounded-statement.ts'
import { translate } from './errors.ts'
import type { leaseStatements } from './lease-statements.ts'
import { fill, optionalTextOf, textOf, type Value } from './literals.ts'
import { committingConnection, type Connections } from './own-connection.ts'
import { again } from './run-alone.ts'
import { readCommitted, shortTransaction, type Run } from './short-transaction.ts'

/** A statement that waits longer for a lock fails: a relay gives up earlier, and the connection must not stay in use. */
const STATEMENT_TIMEOUT_MS = 5000
const LOCK_WAIT_S = serverTimeoutS(STATEMENT_TIMEOUT_MS)

/** So that a connection that is gone does not stay when it is given back. */
const CLOSE_TIMEOUT_MS = 5000

/**
 * The table of leases of MySQL and MariaDB. The contract is that of the port.
 *
 * A relay can be cut off between any two statements. What it does again and again is therefore one statement that is a
 * transaction of its own: it leaves no lock behind that would keep a successor from the leases.
 */
export class MysqlLeaseStore implements LeaseStore {
  readonly #sql: ReturnType<typeof leaseStatements>
  readonly #source: Connections
  #connection: Promise<OwnConnection> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #underWay = 0

  constructor(statements: ReturnType<typeof leaseStatements>, source: Connections) {
    this.#sql = statements
    this.#source = source
  }

  async acquire(
    names: readonly string[],
    request: LeaseRequest & { limit: number },
  ): Promise<readonly Lease[]> {
    const { owner, ttlMs, limit } = request
    if (names.length === 0) return []
    const asked = names.map((name) => Buffer.from(name))
    if (!(await this.#seed(asked))) return []
    return this.#transact('acquiring leases', async (run) => {
      const { rows } = await run(this.#sql.free, [asked, limit])
      if (rows.length === 0) return []
      const free = rows.map((row) => nameOf(row))
      await run(this.#sql.take, [Buffer.from(owner), microseconds(ttlMs), free])
      return rows.map((row, index) => ({
        name: free[index]!.toString(),
        owner,
        term: BigInt(textOf(row['term'])) + 1n,
        crashes: Number(textOf(row['crashes'])),
        inFlight: optionalTextOf(row['in_flight']),
      }))
    })
  }

  async renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    const [first] = leases
    if (first === undefined) return []
    const doing = 'renewing leases'
    const owner = Buffer.from(first.owner)
    const values = [microseconds(ttlMs), owner]
    const { affected } = await this.#write(doing, this.#ofMine(this.#sql.renew, leases), values)
    if (affected === leases.length) return leases
    // Whatever is still held now was held a moment ago, when it was renewed.
    const { rows } = await this.#read(doing, this.#ofMine(this.#sql.held, leases), [owner])
    const renewed = new Set(rows.map((row) => nameOf(row).toString()))
    return leases.filter((lease) => renewed.has(lease.name))
  }

  async release(leases: readonly Lease[], cutOff: ReadonlySet<Lease> = new Set()): Promise<void> {
    const [first] = leases
    if (first === undefined) return
    const cut = leases.filter((lease) => cutOff.has(lease))
    const { release, releaseCutOff } = this.#sql
    const text = cut.length === 0 ? release : releaseCutOff.replaceAll('CUT', () => this.#rowsOf(cut))
    await this.#write('giving leases back', this.#ofMine(text, leases), [Buffer.from(first.owner)])
  }

  async holders(prefix: string): Promise<readonly LeaseHolder[]> {
    const { rows } = await this.#read('reading leases', this.#sql.holders, startsWith(prefix))
    return rows.map((row) => ({
      name: nameOf(row).toString(),
      owner: Buffer.from(textOf(row['owner']), 'hex').toString(),
    }))
  }

  async sweep(prefix: string, olderThanMs: number): Promise<void> {
    const doing = 'sweeping leases'
    const ageUs = microseconds(olderThanMs)
    const { rows } = await this.#read(doing, this.#sql.unused, [...startsWith(prefix), ageUs])
    if (rows.length > 0) await this.#write(doing, this.#sql.sweep, [rows.map(nameOf), ageUs])
  }

  async close(): Promise<void> {
    const connection = this.#connection
    const broken = this.#underWay > 0
    this.#connection = undefined
    this.#last = Promise.resolve()
    // Nobody waits for it: a connection that is still being opened may never be.
    void connection?.then((open) => open.release(broken)).catch(() => undefined)
  }

  /** → whether any of them may be free. */
  async #seed(names: readonly Buffer[]): Promise<boolean> {
    const doing = 'acquiring leases'
    const { rows } = await this.#read(doing, this.#sql.known, [names])
    const known = new Set(rows.map((row) => nameOf(row).toString()))
    const rowsToAdd = names
      .filter((name) => !known.has(name.toString()))
      .sort((a, b) => Buffer.compare(a, b))
      .map((name) => fill(this.#sql.seedRow, [name]))
    if (rowsToAdd.length === 0) return rows.some((row) => textOf(row['free']) === '1')
    const text = this.#sql.seed.replace('ROWS', () => rowsToAdd.join(','))
    await this.#write(doing, text, [])
    return true
  }

  #ofMine(text: string, leases: readonly Lease[]): string {
    return text.replace('ROWS', () => this.#rowsOf(leases))
  }

  #rowsOf(leases: readonly Lease[]): string {
    return leases.map(({ name, term }) => fill(this.#sql.heldRow, [Buffer.from(name), term])).join(' or ')
  }

  #read(doing: string, text: string, values: readonly Value[]): Promise<SqlResult> {
    return this.#inTurn(doing, async ({ query }) => query(await this.#bounded(text, values), []))
  }

  /** One statement that is a transaction of its own. */
  #write(doing: string, text: string, values: readonly Value[]): Promise<SqlResult> {
    return this.#inTurn(doing, async ({ query }) => {
      await readCommitted(query)
      return query(await this.#bounded(text, values), [])
    })
  }

  async #bounded(text: string, values: readonly Value[]): Promise<string> {
    return bounded(fill(text, values), (await this.#source.server()).engine, STATEMENT_TIMEOUT_MS)
  }

  #transact<R>(doing: string, work: (run: Run) => Promise<R>): Promise<R> {
    return this.#inTurn(doing, ({ query }) => shortTransaction(query, LOCK_WAIT_S, work))
  }

  /** One after the other: a connection takes one at a time. */
  #inTurn<R>(doing: string, work: (connection: OwnConnection) => Promise<R>): Promise<R> {
    const turn = this.#last.then(() => again(doing, () => this.#now(doing, work)))
    this.#last = turn.catch(() => undefined)
    return turn
  }

  async #now<R>(doing: string, work: (connection: OwnConnection) => Promise<R>): Promise<R> {
    const connecting = (this.#connection ??= committingConnection(this.#source, CLOSE_TIMEOUT_MS))
    this.#underWay++
    try {
      return await work(await connecting)
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

function nameOf(row: Readonly<Record<string, unknown>>): Buffer {
  return Buffer.from(textOf(row['name']), 'hex')
}

function startsWith(prefix: string): readonly Value[] {
  const bytes = Buffer.from(prefix)
  return [bytes.byteLength, bytes]
}

function microseconds(ms: number): number {
  return Math.round(ms * 1000)
}
