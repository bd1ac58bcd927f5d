/*
 * MySQL and MariaDB limit the time of a statement with a hint or a prefix; PostgreSQL does so by settings of a
 * transaction. Only they have settings of a session that cut off the rows of a SELECT, or refuse a join.
 */
import { randomUUID } from 'node:crypto'
import { cancelAfterMs } from '@txbox/sql/transactions'
import type { ServerTraits } from './server.ts'

/** Distinguishes the statements of this process from those of other processes. */
const PROCESS = randomUUID()
let marks = 0

/** The largest value of `sql_select_limit`. */
const ALL_ROWS = '18446744073709551615'

/** Settings with which neither `sql_select_limit` nor `max_join_size` of the session has an effect, as hints and as a prefix. */
const UNLIMITED_HINTS = `set_var(sql_select_limit=${ALL_ROWS}) set_var(sql_big_selects=1)`
const UNLIMITED_SETTINGS = `sql_select_limit = ${ALL_ROWS}, sql_big_selects = 1`

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
    return `set statement max_statement_time = ${limitS}, sql_safe_updates = 0, ${UNLIMITED_SETTINGS} for ${text}`
  }
  return withHints(text, (verb) => {
    const selectLimit =
      verb === 'select' ? ` max_execution_time(${Math.floor(cancelAfterMs(timeoutMs))})` : ''
    return `set_var(lock_wait_timeout=${serverTimeoutS(timeoutMs)})${selectLimit} ${UNLIMITED_HINTS}`
  })
}

/** Makes a statement independent of settings of the session that limit the rows of a SELECT or a join. */
export function withoutRowLimit(text: string, engine: ServerTraits['engine']): string {
  return engine === 'mariadb'
    ? `set statement ${UNLIMITED_SETTINGS} for ${text}`
    : withHints(text, () => UNLIMITED_HINTS)
}

/**
 * Makes a write independent of the same settings, and of safe updates, with which MariaDB refuses a join with JSON_TABLE, which has
 * no keys.
 */
export function withoutSafeUpdates(text: string, engine: ServerTraits['engine']): string {
  return engine === 'mariadb'
    ? `set statement sql_safe_updates = 0, ${UNLIMITED_SETTINGS} for ${text}`
    : withHints(text, () => UNLIMITED_HINTS)
}

/** Like `withoutRowLimit`, for a SELECT that is sent before the engine is known: MySQL takes the prefix for a comment. */
export function withoutRowLimitAnywhere(text: string): string {
  return `/*M! set statement ${UNLIMITED_SETTINGS} for */${withHints(text, () => UNLIMITED_HINTS)}`
}

function withHints(text: string, hints: (verb: string) => string): string {
  return text.replace(/\b(?:select|insert|update|delete)\b/, (verb) => `${verb} /*+ ${hints(verb)} */`)
}

/** Makes the text of a statement unique, so that the server's list of statements shows which connection runs it. */
export function withMark(text: string): string {
  return `${text.trim()} /* ${PROCESS}/${++marks} */`
}
