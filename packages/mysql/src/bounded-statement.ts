import type { ServerTraits } from './server.ts'

/** The server cancels what is late a little before this side gives it up, so that its answer still comes. */
const SERVER_SHARE = 0.9

/** In seconds, which is how servers count: when the server has to give a statement up. */
export function serverTimeoutS(timeoutMs: number): number {
  return Math.max(1, Math.floor((timeoutMs * SERVER_SHARE) / 1000))
}

/**
 * A statement that the server gives up when it is late: it would otherwise go on waiting for a lock on the table, on a
 * connection that nobody uses any more. MySQL takes a bound on a SELECT, and on the wait for the table of any statement.
 */
export function bounded(text: string, engine: ServerTraits['engine'], timeoutMs: number): string {
  if (engine === 'mariadb') {
    // Safe updates would refuse a join with JSON_TABLE, which has no keys.
    const mostS = ((timeoutMs * SERVER_SHARE) / 1000).toFixed(3)
    return `set statement max_statement_time = ${mostS}, sql_safe_updates = 0 for ${text}`
  }
  return text.replace(/\b(?:select|insert|update|delete)\b/, (verb) => {
    const most = verb === 'select' ? ` max_execution_time(${Math.floor(timeoutMs * SERVER_SHARE)})` : ''
    return `${verb} /*+ set_var(lock_wait_timeout=${serverTimeoutS(timeoutMs)})${most} */`
  })
}
