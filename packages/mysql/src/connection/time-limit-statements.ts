/*
 * MySQL and MariaDB limit the time of a statement with a hint or a prefix; PostgreSQL does so by settings of a
 * transaction.
 */
import { randomUUID } from 'node:crypto'
import { cancelAfterMs } from '@txbox/sql/transactions'
import type { ServerTraits } from './server.ts'

/** Distinguishes the statements of this process from those of other processes. */
const PROCESS = randomUUID()
let marks = 0

/** The server must cancel a statement after this time. */
export function serverTimeoutS(timeoutMs: number): number {
  return Math.max(1, Math.floor(cancelAfterMs(timeoutMs) / 1000))
}

/**
 * Adds a time limit to a statement, so that the server cancels it when it is late. Otherwise the statement would
 * continue to wait for a lock on the table, on a connection that is no longer used. MariaDB has a prefix that limits
 * any statement. MySQL has hints, which must follow the first verb of the statement: they limit a SELECT, and the time
 * that any statement waits for a table lock, but not the time that it waits for row locks.
 */
export function withTimeLimit(text: string, engine: ServerTraits['engine'], timeoutMs: number): string {
  if (engine === 'mariadb') {
    // With safe updates, the server would refuse a join with JSON_TABLE, which has no keys.
    const limitS = (cancelAfterMs(timeoutMs) / 1000).toFixed(3)
    return `set statement max_statement_time = ${limitS}, sql_safe_updates = 0 for ${text}`
  }
  return text.replace(/\b(?:select|insert|update|delete)\b/, (verb) => {
    const selectLimit =
      verb === 'select' ? ` max_execution_time(${Math.floor(cancelAfterMs(timeoutMs))})` : ''
    return `${verb} /*+ set_var(lock_wait_timeout=${serverTimeoutS(timeoutMs)})${selectLimit} */`
  })
}

/** Makes the text of a statement unique, so that the server's list of statements shows which connection runs it. */
export function withMark(text: string): string {
  return `${text.trim()} /* ${PROCESS}/${++marks} */`
}
