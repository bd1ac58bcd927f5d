import { migrate } from '@txbox/mysql'
import type { Pool, RowDataPacket } from 'mysql2/promise'

/** The business data: small enough to stay in memory, large enough that clients rarely want the same row. */
const ACCOUNTS = 5000

/**
 * The tables of one variant, under its own prefix: accounts, and the tables that txbox's migrations create, also for the
 * variants by hand. All variants start from the same tables, and no variant is slowed by deleted rows of another one.
 */
export async function createWorkspace(pool: Pool, prefix: string): Promise<void> {
  for (const table of ['accounts', 'inbox', 'outbox', 'leases', 'migrations']) {
    await pool.query(`drop table if exists ${prefix}${table}`)
  }
  await migrate(pool, { prefix })
  await pool.query(`create table ${prefix}accounts (id integer primary key, balance bigint not null)`)
  const rows = Array.from({ length: ACCOUNTS }, (_, index) => `(${index + 1}, 0)`)
  await pool.query(`insert into ${prefix}accounts values ${rows.join(',')}`)
  await pool.query(`analyze table ${prefix}accounts`)
}

export function anyAccount(): number {
  return 1 + Math.floor(Math.random() * ACCOUNTS)
}

/** The business statement, the same for all variants. `?` is the account. */
export function creditStatement(prefix: string): string {
  return `update ${prefix}accounts set balance = balance + 1 where id = ?`
}

/**
 * Checks that the tables contain all work of the rounds: a variant that skipped a part of its work would look fast.
 *
 * @throws {Error} when a part of the work is missing.
 */
export async function assertWorkDone(
  pool: Pool,
  prefix: string,
  expected: { readonly credits: number; readonly inbox?: number; readonly outbox?: number },
): Promise<void> {
  const [[found]] = await pool.query<RowDataPacket[]>(
    `select (select sum(balance) from ${prefix}accounts) as credits,
       (select count(*) from ${prefix}inbox) as inbox, (select count(*) from ${prefix}outbox) as outbox`,
  )
  for (const [name, count] of Object.entries(expected)) {
    if (Number(found?.[name]) !== count) {
      throw new Error(`${prefix}: expected ${name} to be ${count} after the rounds, found ${found?.[name]}.`)
    }
  }
}
