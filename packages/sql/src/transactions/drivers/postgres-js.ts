import { UnsupportedTransactionError } from '@txbox/core'
import { propertyOf, unanswered, within } from '@txbox/core/internal'
import type { DriverAdapter, SqlResult } from '../adapters.ts'
import type { RootAdapter } from '../root-adapter.ts'
import { hasFunction } from '../members.ts'
import { withLiterals } from './postgres-literals.ts'
import { outsideTransaction } from './hidden-errors.ts'
import {
  closed,
  hasEnded,
  inScope,
  meeting,
  scopeOf,
  type PostgresJs,
  type PostgresJsResult,
} from './postgres-js-scope.ts'
import { LEVELS, hiddenStatements } from './hidden-statements.ts'
import { pgStatements } from './pg-statements.ts'

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
    within(send(root, withLiterals(text, values), text), timeoutMs, unanswered),
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
  limitsIdleTime: true,
  transact: (root, work, isolation, idleLimitMs) =>
    inScope(
      (begun) => (isolation === undefined ? root.begin(begun) : root.begin(LEVELS[isolation], begun)),
      (tx) => work(tx, undefined),
      { first: idleLimitMs === undefined ? '' : pgStatements.limitIdleTime(idleLimitMs) },
    ),
}

/** `named` is the text from which the names of the columns are taken. */
async function send(sql: PostgresJs, text: string, named: string): Promise<SqlResult> {
  // A statement on a closed connection would end the process.
  if (hasEnded(sql)) throw closed()
  // A root runs each statement on any of its connections.
  const answer = await (isRoot(sql) ? sql.unsafe(text) : sql.unsafe(text, [], meeting(sql))).raw()
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
