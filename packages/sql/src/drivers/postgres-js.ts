import { UnsupportedTransactionError } from '@txbox/core'
import { answerWithin, propertyOf } from '@txbox/core/internal'
import type { DriverAdapter, RootAdapter, SqlResult } from '../adapters.ts'
import { hasFunction } from '../members.ts'
import { withLiterals } from '../postgres-literals.ts'
import { outsideTransaction } from './hidden-errors.ts'
import { LEVELS, hiddenStatements } from './hidden-statements.ts'

/** The part of postgres.js that all its objects have; `postgres` itself is not imported. */
interface PostgresJs {
  readonly unsafe: (
    text: string,
    values?: readonly unknown[],
    options?: { readonly onexecute: (connection: PostgresJsConnection) => true },
  ) => PostgresJsQuery
}
/**
 * The object that postgres.js passes to `onexecute`. It is undocumented; without it, only the server knows the state.
 */
interface PostgresJsConnection {
  /**
   * A function that is unique for each transaction and each reservation of the connection. Null when the transaction or
   * reservation has ended, or the connection is closed.
   */
  readonly reserved?: unknown
  /** Null when the connection is closed. */
  readonly onclose?: unknown
}
/** A query, whose rows can be read as lists of the bytes of each column, before parsers and most transforms. */
interface PostgresJsQuery {
  /** Sends the query. Undocumented. The function is unique for each transaction, savepoint and reservation. */
  readonly handler?: object
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
 * A transaction of postgres.js 3.4, which hides its connection and does not know when a transaction has ended.
 * Therefore each statement of txbox itself makes sure that it runs in a transaction. A connection taken with
 * `reserve()` also works after BEGIN.
 */
export const postgresJsHandle: DriverAdapter<PostgresJs> = {
  name: 'postgres.js',
  recognises: isPostgresJs,
  state: (sql) => (isRoot(sql) || hasEnded(sql) ? 'none' : 'open'),
  stateNow: (sql) => (hasEnded(sql) ? 'none' : 'open'),
  identityOf: scopeOf,
  monitor: () => undefined,
  async query(sql, text, values) {
    try {
      return await send(sql, hiddenStatements.onlyInTransaction(withLiterals(text, values)), text)
    } catch (error) {
      throw outsideTransaction(error, 'postgres.js')
    }
  },
}

/** The root that `postgres()` returns. */
export const postgresJsRoot: RootAdapter<PostgresJsRoot> = {
  name: 'postgres.js',
  checksCommit: false,
  recognises: isRoot,
  maxConnections: ({ options }) => options?.max,
  query: (root, text, values, timeoutMs) =>
    answerWithin(timeoutMs, send(root, withLiterals(text, values), text)),
  async connect(root) {
    const sql = await root.reserve()
    return {
      query: (text, values) => send(sql, withLiterals(text, values), text),
      // postgres.js cannot discard a connection. A connection that still waits for an answer is given back after the
      // answer, and a closed connection is replaced.
      release(broken) {
        const release = (): void => {
          if (!hasEnded(sql)) sql.release()
        }
        if (broken) send(sql, '', '').then(release, () => undefined)
        else release()
      },
    }
  },
  transact: (root, work, isolation) =>
    inScope(
      (begun) => (isolation === undefined ? root.begin(begun) : root.begin(LEVELS[isolation], begun)),
      (tx) => work(tx, undefined),
    ),
}

/**
 * Runs `work` as postgres.js does, which sends COMMIT or ROLLBACK when `work` has ended. If the transaction has ended
 * before, by the loss of its connection for example, postgres.js never learns that `work` has ended: its ROLLBACK would
 * undo the transaction that has the connection by now, or end the process.
 */
function inScope<T>(
  open: (work: (tx: PostgresJs) => Promise<T>) => Promise<T>,
  work: (tx: PostgresJs) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const run = async (tx: PostgresJs): Promise<T> => {
      try {
        const result = await work(tx)
        if (hasEnded(tx)) throw closed()
        return result
      } catch (error) {
        if (!hasEnded(tx)) throw error
        reject(error)
        return new Promise(() => undefined)
      }
    }
    open(run).then(resolve, reject)
  })
}

/** The connection on which a transaction or a reservation was first seen. */
const met = new WeakMap<object, { readonly connection: PostgresJsConnection; readonly reserved: unknown }>()

/**
 * Returns an object that identifies a transaction, a savepoint or a reservation, even if the handle is a proxy. The
 * query is never sent.
 */
function scopeOf(sql: PostgresJs): object {
  return sql.unsafe('').handler ?? sql.unsafe
}

/** Returns whether a transaction or a reservation is known to have ended, including by the loss of its connection. */
function hasEnded(sql: PostgresJs): boolean {
  const known = met.get(scopeOf(sql))
  return known !== undefined && known.connection.reserved !== known.reserved
}

function closed(): Error {
  return Object.assign(new Error('The connection is closed, or was given back.'), {
    code: 'CONNECTION_CLOSED',
  })
}

/** Sends a statement. `named` is the text from which the names of the columns are taken. */
async function send(sql: PostgresJs, text: string, named: string): Promise<SqlResult> {
  // A statement on a closed connection would end the process.
  if (hasEnded(sql)) throw closed()
  const scope = scopeOf(sql)
  const onexecute = (connection: PostgresJsConnection): true => {
    const { reserved } = connection
    if (typeof reserved === 'function' && !met.has(scope)) met.set(scope, { connection, reserved })
    return true
  }
  // A root runs each statement on any of its connections.
  const answer = await (isRoot(sql) ? sql.unsafe(text) : sql.unsafe(text, [], { onexecute })).raw()
  // The caller's statement is the last one.
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

/**
 * An option such as `transform: postgres.camel` renames columns; the text of the statement contains the original names.
 */
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
