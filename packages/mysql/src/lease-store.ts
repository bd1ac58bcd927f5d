import type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from '@txbox/core'
import type { OwnConnection, RootAdapter, SqlResult } from '@txbox/handles'
import { translate } from './errors.ts'
import type { leaseStatements } from './lease-statements.ts'
import { fill, textOf, type Value } from './literals.ts'
import type { ServerTraits } from './server.ts'

/** Where connections come from, and whether they commit by themselves. */
interface Source {
  readonly root: RootAdapter
  readonly db: unknown
  readonly server: () => Promise<ServerTraits>
}

type Run = (text: string, values: readonly Value[]) => Promise<SqlResult>

/** The table of leases of MySQL and MariaDB. The contract is that of the port. */
export class MysqlLeaseStore implements LeaseStore {
  readonly #sql: ReturnType<typeof leaseStatements>
  readonly #source: Source
  #connection: Promise<OwnConnection> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #underWay = 0

  constructor(statements: ReturnType<typeof leaseStatements>, source: Source) {
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
    await this.#seed(asked)
    return this.#transact('acquiring leases', async (run) => {
      const { rows } = await run(this.#sql.free, [asked, limit])
      if (rows.length === 0) return []
      const free = rows.map((row) => nameOf(row))
      await run(this.#sql.take, [Buffer.from(owner), microseconds(ttlMs), free])
      return rows.map((row, index) => ({
        name: free[index]!.toString(),
        owner,
        term: BigInt(textOf(row['term'])) + 1n,
        afterCrash: textOf(row['after_crash']) === '1',
      }))
    })
  }

  async renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    const [first] = leases
    if (first === undefined) return []
    const renewed = await this.#transact('renewing leases', async (run) => {
      const { rows } = await run(this.#ofMine(this.#sql.held, leases), [Buffer.from(first.owner)])
      const held = rows.map((row) => nameOf(row))
      if (held.length > 0) await run(this.#sql.extend, [microseconds(ttlMs), held])
      return new Set(held.map(String))
    })
    return leases.filter((lease) => renewed.has(lease.name))
  }

  async release(leases: readonly Lease[]): Promise<void> {
    const [first] = leases
    if (first === undefined) return
    await this.#alone('giving leases back', this.#ofMine(this.#sql.release, leases), [
      Buffer.from(first.owner),
    ])
  }

  async holders(prefix: string): Promise<readonly LeaseHolder[]> {
    const { rows } = await this.#alone('reading leases', this.#sql.holders, startsWith(prefix))
    return rows.map((row) => ({
      name: nameOf(row).toString(),
      owner: Buffer.from(textOf(row['owner']), 'hex').toString(),
    }))
  }

  async sweep(prefix: string, olderThanMs: number): Promise<void> {
    await this.#alone('sweeping leases', this.#sql.sweep, [...startsWith(prefix), microseconds(olderThanMs)])
  }

  async close(): Promise<void> {
    const connection = this.#connection
    const broken = this.#underWay > 0
    this.#connection = undefined
    this.#last = Promise.resolve()
    // Nobody waits for it: a connection that is still being opened may never be.
    void connection?.then((open) => open.release(broken)).catch(() => undefined)
  }

  async #seed(names: readonly Buffer[]): Promise<void> {
    const doing = 'acquiring leases'
    const { rows } = await this.#alone(doing, this.#sql.known, [names])
    const known = new Set(rows.map((row) => nameOf(row).toString()))
    const rowsToAdd = names
      .filter((name) => !known.has(name.toString()))
      .sort((a, b) => Buffer.compare(a, b))
      .map((name) => fill(this.#sql.seedRow, [name]))
    if (rowsToAdd.length === 0) return
    await this.#transact(doing, (run) =>
      run(
        this.#sql.seed.replace('ROWS', () => rowsToAdd.join(',')),
        [],
      ),
    )
  }

  #ofMine(text: string, leases: readonly Lease[]): string {
    const mine = leases.map(({ name, term }) => fill(this.#sql.heldRow, [Buffer.from(name), term]))
    return text.replace('ROWS', () => mine.join(' or '))
  }

  /** One statement that is a transaction of its own. */
  #alone(doing: string, text: string, values: readonly Value[]): Promise<SqlResult> {
    return this.#inTurn(doing, async (connection) => {
      const { autocommit } = await this.#source.server()
      const result = await connection.query(fill(text, values), [])
      if (!autocommit) await connection.query('COMMIT', [])
      return result
    })
  }

  #transact<R>(doing: string, work: (run: Run) => Promise<R>): Promise<R> {
    return this.#inTurn(doing, (connection) => transact(connection, work))
  }

  /** One after the other: a connection takes one at a time. */
  #inTurn<R>(doing: string, work: (connection: OwnConnection) => Promise<R>): Promise<R> {
    const turn = this.#last.then(() => this.#now(doing, work))
    this.#last = turn.catch(() => undefined)
    return turn
  }

  async #now<R>(doing: string, work: (connection: OwnConnection) => Promise<R>): Promise<R> {
    const { root, db } = this.#source
    const connecting = (this.#connection ??= root.connect(db))
    this.#underWay++
    try {
      return await work(await connecting)
    } catch (error) {
      // Whatever it was, a fresh connection is the safe choice: leases are renewed rarely.
      if (this.#connection === connecting) {
        this.#connection = undefined
        void connecting.then(giveUp).catch(() => undefined)
      }
      throw translate(error, doing)
    } finally {
      this.#underWay--
    }
  }
}

/**
 * READ COMMITTED, for this transaction only: a search then locks what it finds, and not what it has looked at.
 */
async function transact<R>({ query }: OwnConnection, work: (run: Run) => Promise<R>): Promise<R> {
  await query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED', [])
  await query('START TRANSACTION', [])
  const result = await work((text, values) => query(fill(text, values), []))
  await query('COMMIT', [])
  return result
}

/** Not every library can discard a connection, and none may get back one with a transaction open. */
async function giveUp(connection: OwnConnection): Promise<void> {
  await connection.query('ROLLBACK', []).catch(() => undefined)
  connection.release(true)
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
