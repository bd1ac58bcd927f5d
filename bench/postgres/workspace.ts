import { migrate } from '@txbox/postgres'
import type { Pool } from 'pg'

/** The business data: small enough to stay in memory, large enough that clients rarely want the same row. */
const ACCOUNTS = 5000

/**
 * The tables of one variant, in its own schema: accounts, and the tables that txbox's migrations create, also for the
 * variants by hand. All variants start from the same tables, and no variant is slowed by dead rows of another one.
 */
export async function createWorkspace(pool: Pool, schema: string, accounts = ACCOUNTS): Promise<void> {
  await migrate(pool, { schema })
  // Half-full pages: updates stay in their page from the start, as in a table that has been in use.
  await pool.query(`
    create table ${schema}.accounts (id integer primary key, balance bigint not null) with (fillfactor = 50);
    insert into ${schema}.accounts select id, 0 from generate_series(1, ${accounts}) as id;
  `)
  await pool.query(`vacuum analyze ${schema}.accounts`)
}

export function anyAccount(of = ACCOUNTS): number {
  return 1 + Math.floor(Math.random() * of)
}

/** The business statement, the same for all variants. `$1` is the account. */
export function creditStatement(schema: string): string {
  return `update ${schema}.accounts set balance = balance + 1 where id = $1`
}

/** The same for many accounts, by one statement. `$1` are the accounts, in one order, so that such statements do not deadlock. */
export function creditAllStatement(schema: string): string {
  return `with locked as materialized (
    select a.id from ${schema}.accounts as a where a.id = any ($1::integer[]) order by a.id for update
  )
  update ${schema}.accounts set balance = balance + 1 where id in (select locked.id from locked)`
}

/** Different accounts of a workspace with so many. */
export function anyAccounts(count: number, of: number): number[] {
  const accounts = new Set<number>()
  while (accounts.size < count) accounts.add(anyAccount(of))
  return [...accounts]
}

/** A checkpoint now prevents one in the middle of a round. It is skipped if the user lacks the right. */
export async function checkpoint(pool: Pool): Promise<void> {
  await pool.query('checkpoint').catch((error: unknown) => {
    if (!(error instanceof Error && Reflect.get(error, 'code') === '42501')) throw error
  })
}

/**
 * Checks that the tables contain all work of the rounds: a variant that skipped a part of its work would look fast.
 *
 * @throws {Error} when a part of the work is missing.
 */
export async function assertWorkDone(
  pool: Pool,
  schema: string,
  expected: { readonly credits: number; readonly inbox?: number; readonly outbox?: number },
): Promise<void> {
  const { rows } = await pool.query<Record<string, string>>(
    `select (select sum(balance) from ${schema}.accounts) as credits,
       (select count(*) from ${schema}.inbox) as inbox, (select count(*) from ${schema}.outbox) as outbox`,
  )
  const found = rows[0]!
  for (const [name, count] of Object.entries(expected)) {
    if (Number(found[name]) !== count) {
      throw new Error(`${schema}: expected ${name} to be ${count} after the rounds, found ${found[name]}.`)
    }
  }
}
