/* MySQL and MariaDB bound a statement by a hint; PostgreSQL bounds it by settings of a transaction. */
import { cancelAfterMs } from '@txbox/sql'
import type { ServerTraits } from './server.ts'

/** When the server has to give a statement up, in seconds, the unit of the servers. */
export function serverTimeoutS(timeoutMs: number): number {
  return Math.max(1, Math.floor(cancelAfterMs(timeoutMs) / 1000))
}

/**
 * Makes the server give a statement up when it is late: otherwise the statement would continue waiting for a lock on the
 * table, on a connection that is no longer used. MySQL accepts a bound on a SELECT, and on any statement's wait for a table.
 */
export function bounded(text: string, engine: ServerTraits['engine'], timeoutMs: number): string {
  if (engine === 'mariadb') {
    // Safe updates would refuse a join with JSON_TABLE, which has no keys.
    const mostS = (cancelAfterMs(timeoutMs) / 1000).toFixed(3)
    return `set statement max_statement_time = ${mostS}, sql_safe_updates = 0 for ${text}`
  }
  return text.replace(/\b(?:select|insert|update|delete)\b/, (verb) => {
    const most = verb === 'select' ? ` max_execution_time(${Math.floor(cancelAfterMs(timeoutMs))})` : ''
    return `${verb} /*+ set_var(lock_wait_timeout=${serverTimeoutS(timeoutMs)})${most} */`
  })
}
