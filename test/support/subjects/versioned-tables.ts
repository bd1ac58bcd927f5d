import { randomUUID } from 'node:crypto'
import { Kysely, MysqlDialect, PostgresDialect, type ColumnType, type Transaction } from 'kysely'
import type { Pool as MysqlPool } from 'mysql2/promise'
import type { Pool as PostgresPool } from 'pg'
import { beforeAll } from 'vitest'
import type { Isolation, Root, Target } from '../engines/target.ts'

/** Tables of a user, whose driver determines the types of versions and times. */
export interface VersionedTables {
  orders: {
    id: string
    status: ColumnType<string | null, string | undefined, string>
    total: number
    note: ColumnType<string | null, string | undefined, string>
    other: ColumnType<string | null, string | undefined, string>
    version: number
    updated_at: ColumnType<Date, string | null, string>
  }
  ledgers: { account: string; balance: number; rev: ColumnType<string, string, string> }
  documents: { id: string; body: string; version: number }
}

/** An order in the database, with the version and the time as text. */
export interface OrderRow {
  readonly status: string | null
  readonly total: number
  readonly version: string
  readonly updatedAt: string | null
}

export class VersionedTablesUnderTest {
  readonly #target: Target

  constructor(target: Target) {
    this.#target = target
  }

  async create(): Promise<void> {
    const postgres = this.#target.engine === 'postgres'
    const time = postgres ? 'timestamptz' : 'datetime(6)'
    await this.#target.sql(
      `create table orders (id varchar(100) primary key, status varchar(50), total integer not null, note varchar(100),
       version integer not null, updated_at ${time}, other varchar(100) unique)`,
    )
    await this.#target.sql(
      'create table ledgers (account varchar(100) primary key, balance integer not null, rev bigint not null)',
    )
    await this.#target.sql(
      'create table documents (id varchar(100) primary key, body text not null, version integer not null)',
    )
  }

  /** @returns its id */
  async order(row: Partial<Omit<OrderRow, 'version'>> & { readonly version?: number } = {}): Promise<string> {
    const id = randomUUID()
    await this.#target.sql(
      'insert into orders (id, status, total, version, updated_at) values (?, ?, ?, ?, ?)',
      [id, row.status ?? 'pending', row.total ?? 0, row.version ?? 1, row.updatedAt ?? null],
    )
    return id
  }

  async read(id: string): Promise<OrderRow | undefined> {
    const [text, utc] =
      this.#target.engine === 'postgres'
        ? ['text', "to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"]
        : ['char', 'cast(updated_at as char)']
    const [row] = await this.#target.sql(
      `select status, total, cast(version as ${text}) as version, ${utc} as updated from orders where id = ?`,
      [id],
    )
    return (
      row && {
        status: row['status'] as string | null,
        total: Number(row['total']),
        version: String(row['version']),
        updatedAt: row['updated'] as string | null,
      }
    )
  }

  async ledger(rev: bigint): Promise<string> {
    const account = randomUUID()
    await this.#target.sql('insert into ledgers (account, balance, rev) values (?, 0, ?)', [
      account,
      String(rev),
    ])
    return account
  }

  async rev(account: string): Promise<string> {
    const text = this.#target.engine === 'postgres' ? 'text' : 'char'
    const [row] = await this.#target.sql(
      `select cast(rev as ${text}) as rev from ledgers where account = ?`,
      [account],
    )
    return String(row?.['rev'])
  }

  async document(body: readonly string[]): Promise<string> {
    const id = randomUUID()
    await this.#target.sql('insert into documents (id, body, version) values (?, ?, 1)', [
      id,
      JSON.stringify(body),
    ])
    return id
  }

  async body(id: string): Promise<string[]> {
    const [row] = await this.#target.sql('select body from documents where id = ?', [id])
    return JSON.parse(String(row?.['body'])) as string[]
  }
}

/** The tables of a user, in the same database as those of txbox. */
export function useVersionedTables(target: Target): VersionedTablesUnderTest {
  const tables = new VersionedTablesUnderTest(target)
  beforeAll(() => tables.create())
  return tables
}

/** Kysely on the user's root. */
export function kyselyOf(target: Target, root: Root): Kysely<VersionedTables> {
  if ('isTransaction' in root.db) return root.db as Kysely<VersionedTables>
  if (target.engine === 'postgres') {
    return new Kysely({ dialect: new PostgresDialect({ pool: root.db as PostgresPool }) })
  }
  return new Kysely({ dialect: new MysqlDialect({ pool: (root.db as MysqlPool).pool }) })
}

/** Runs one transaction at this level. */
export function inTransaction<R>(
  db: Kysely<VersionedTables>,
  isolation: Isolation,
  work: (tx: Transaction<VersionedTables>) => Promise<R>,
): Promise<R> {
  const level = isolation === 'snapshot isolation' ? 'repeatable read' : isolation
  return db.transaction().setIsolationLevel(level).execute(work)
}

/** The error of a rejected promise. */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => {
      throw new Error(`Expected a failure, got ${JSON.stringify(value)}`)
    },
    (error: unknown) => error,
  )
}
