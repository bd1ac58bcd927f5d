import type { OwnConnection, SqlResult } from '@txbox/sql'
import { fill, type Value } from './literals.ts'

/** How long a transaction may be open without a statement, in seconds: then the server ends it, and its locks. */
const IDLE_S = 2

type Query = OwnConnection['query']

export type Run = (text: string, values: readonly Value[]) => Promise<SqlResult>

/**
 * A transaction of several statements at READ COMMITTED: a search locks what it finds, and not what it has looked at. If
 * this process stands still in the middle, or is cut off, the server soon ends it: its locks would keep others waiting for
 * as long. No statement waits longer than `lockWaitS` for a lock, on a row or on a table.
 */
export async function shortTransaction<R>(
  query: Query,
  lockWaitS: number,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  await query(bounding(lockWaitS), [])
  try {
    await readCommitted(query)
    await query('START TRANSACTION', [])
    const result = await work((text, values) => query(fill(text, values), []))
    await query('COMMIT', [])
    return result
  } catch (error) {
    await query('ROLLBACK', [])
    throw error
  } finally {
    // Not before the transaction has ended: who is cut off in between would leave it open for hours.
    await query(UNBOUNDED, [])
  }
}

function bounding(lockWaitS: number): string {
  return (
    `set @txbox_wait = @@session.wait_timeout, session wait_timeout = ${IDLE_S}, ` +
    `@txbox_lock_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = ${lockWaitS}, ` +
    `@txbox_table_wait = @@session.lock_wait_timeout, session lock_wait_timeout = ${lockWaitS}, ` +
    // On MariaDB they would refuse a join with JSON_TABLE, which has no keys.
    '@txbox_safe_updates = @@session.sql_safe_updates, session sql_safe_updates = 0'
  )
}

const UNBOUNDED =
  'set session wait_timeout = @txbox_wait, session innodb_lock_wait_timeout = @txbox_lock_wait, ' +
  'session lock_wait_timeout = @txbox_table_wait, session sql_safe_updates = @txbox_safe_updates'

/** Of the next transaction only, which may be a single statement. */
export async function readCommitted(query: Query): Promise<void> {
  await query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED', [])
}
