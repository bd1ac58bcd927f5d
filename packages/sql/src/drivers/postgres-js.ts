import { NotInTransactionError, UnsupportedTransactionError } from '@txbox/core'
import { answerWithin, propertyOf } from '@txbox/core/internal'
import type { DriverAdapter, RootAdapter, SqlResult } from '../adapters.ts'
import { hasFunction } from '../members.ts'
import { withLiterals } from '../postgres-literals.ts'
import { LEVELS, hiddenStatements } from './postgres-js-statements.ts'

/** The part of postgres.js that all its objects have; `postgres` itself is not imported. */
interface PostgresJs {
  unsafe(text: string): PostgresJsQuery
}
/** Rows as lists of the bytes of each column, before parsers and most transforms. */
interface PostgresJsQuery {
  raw(): Promise<PostgresJsResult | PostgresJsResult[]>
}
interface PostgresJsResult extends ReadonlyArray<unknown> {
  readonly count: number | null
  readonly columns?: readonly { readonly name: string }[] | null
}
interface PostgresJsRoot extends PostgresJs {
  readonly options?: { readonly max?: number }
  reserve(): Promise<PostgresJs & { release(): void }>
  begin<T>(work: (tx: PostgresJs) => Promise<T>): Promise<T>
  begin<T>(options: string, work: (tx: PostgresJs) => Promise<T>): Promise<T>
}

/**
 * A transaction of postgres.js 3.4, which hides its connection and does not know when a transaction has ended: each
 * statement makes sure by itself that it runs in a transaction. A connection taken with `reserve()` also works after
 * BEGIN.
 */
export const postgresJsHandle: DriverAdapter<PostgresJs> = {
  name: 'postgres.js',
  recognises: isPostgresJs,
  state: (sql) => (isRoot(sql) ? 'none' : 'open'),
  monitor: () => undefined,
  async query(sql, text, values) {
    try {
      return await send(sql, hiddenStatements.onlyInTransaction(withLiterals(text, values)), text)
    } catch (error) {
      throw outsideTransaction(error)
    }
  },
}

/** What `postgres()` returns. */
export const postgresJsRoot: RootAdapter<PostgresJsRoot> = {
  name: 'postgres.js',
  checksCommit: false,
  opensConnections: false,
  recognises: isRoot,
  maxConnections: ({ options }) => options?.max,
  query: queryWithin,
  async connect(root) {
    const sql = await root.reserve()
    let lost = false
    return {
      async query(text, values) {
        if (lost) throw Object.assign(new Error('The connection is closed.'), { code: 'CONNECTION_CLOSED' })
        try {
          return await send(sql, withLiterals(text, values), text)
        } catch (error) {
          // postgres.js replaces a lost connection, and would end the process for a statement on it.
          lost ||= !isAnswer(error)
          throw error
        }
      },
      // postgres.js cannot discard a connection. One that still waits for an answer is given back after the answer.
      release(broken) {
        if (lost) return
        if (broken) send(sql, '', '').then(() => sql.release()).catch(() => undefined)
        else sql.release()
      },
    }
  },
  connectApart: async (root, timeoutMs) => ({
    query: (text, values) => queryWithin(root, text, values, timeoutMs),
    release: () => undefined,
  }),
  transact(root, work, isolation) {
    const run = (tx: PostgresJs): ReturnType<typeof work> => work(tx, undefined)
    return isolation === undefined ? root.begin(run) : root.begin(LEVELS[isolation], run)
  },
}

function queryWithin(
  root: PostgresJs,
  text: string,
  values: readonly unknown[],
  timeoutMs: number,
): Promise<SqlResult> {
  return answerWithin(timeoutMs, send(root, withLiterals(text, values), text))
}

/** `named` has the names of the columns. */
async function send(sql: PostgresJs, text: string, named: string): Promise<SqlResult> {
  const answer = await sql.unsafe(text).raw()
  // Of several statements the last is the caller's.
  const result = isResult(answer) ? answer : answer.at(-1)
  return { rows: rowsOf(result, named), affected: result?.count ?? Number.NaN }
}

function isResult(answer: PostgresJsResult | PostgresJsResult[]): answer is PostgresJsResult {
  return propertyOf(answer, 'count') !== undefined
}

function rowsOf(result: PostgresJsResult | undefined, text: string): SqlResult['rows'] {
  if (result === undefined || result.length === 0) return []
  const names = (result.columns ?? []).map(({ name }) => nameIn(text, name))
  return result.map((row) => {
    if (!Array.isArray(row)) throw renamed("the option 'transform.row'")
    return Object.fromEntries(names.map((name, n) => [name, textOf(row[n])]))
  })
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (value instanceof Uint8Array) return Buffer.from(value).toString()
  throw renamed("the option 'transform.value'")
}

const WORD = /[a-z_][a-z_0-9]*/g

/** An option such as `transform: postgres.camel` renames columns; the text of the statement has the true names. */
function nameIn(text: string, name: string): string {
  const words = text.match(WORD) ?? []
  const found =
    words.find((word) => word === name) ?? words.find((word) => lettersOf(word) === lettersOf(name))
  if (found === undefined) throw renamed("the option 'transform.column'")
  return found
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

function renamed(what: string): UnsupportedTransactionError {
  return new UnsupportedTransactionError(
    `${what} of postgres.js changes the rows of txbox so that they cannot be read. Roll back, and pass an instance of ` +
      'postgres.js without this option.',
  )
}

/** 25P01: a savepoint outside a transaction. */
function outsideTransaction(error: unknown): unknown {
  if (propertyOf(error, 'code') !== '25P01') return error
  return new NotInTransactionError(
    'Expected an open transaction, but this postgres.js handle has none. Await everything that uses the transaction ' +
      'before it ends. Nothing was written.',
    { cause: error },
  )
}

/** Whether the server has answered, and keeps the connection. */
function isAnswer(error: unknown): boolean {
  return propertyOf(error, 'severity') === 'ERROR'
}

/** A transaction of Bun's `SQL` has `begin` and no `typed`. */
function isPostgresJs(value: unknown): value is PostgresJs {
  return (
    typeof value === 'function' &&
    hasFunction(value, 'unsafe') &&
    hasFunction(value, 'typed') &&
    hasFunction(value, 'file')
  )
}

function isRoot(value: unknown): value is PostgresJsRoot {
  return (
    isPostgresJs(value) &&
    !hasFunction(value, 'savepoint') &&
    hasFunction(value, 'begin') &&
    hasFunction(value, 'reserve')
  )
}
