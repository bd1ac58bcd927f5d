import { propertyOf } from '@txbox/core/internal'

/** The part of postgres.js that all its objects have; `postgres` itself is not imported. */
export interface PostgresJs {
  readonly unsafe: (text: string, values?: readonly unknown[], options?: StatementOptions) => PostgresJsQuery
}
interface StatementOptions {
  readonly onexecute: (connection: PostgresJsConnection) => true
}
/** The further part that a transaction and a savepoint have. A call returns a query, or a part of one. */
interface PostgresJsTransaction extends PostgresJs {
  (...args: unknown[]): unknown
  readonly file: (...args: unknown[]) => unknown
  readonly notify: (...args: unknown[]) => unknown
  readonly savepoint: (...args: unknown[]) => Promise<unknown>
}
type Handler = (query: PostgresJsQuery) => void
/**
 * The object that postgres.js passes to `onexecute`. It is undocumented; without it, only the server knows the state.
 */
interface PostgresJsConnection {
  /**
   * A function that is unique for each transaction and each reservation of the connection. Null when the transaction or
   * reservation has ended, or the connection is closed.
   */
  readonly reserved?: unknown
}
/** A query, whose rows can be read as lists of the bytes of each column, before parsers and most transforms. */
interface PostgresJsQuery {
  /** Sends the query. Undocumented. The function is unique for each transaction, savepoint and reservation. */
  readonly handler?: Handler
  reject(error: Error): void
  execute(): unknown
  raw(): Promise<PostgresJsResult | PostgresJsResult[]>
}
export interface PostgresJsResult extends ReadonlyArray<unknown> {
  readonly count: number | null
  readonly columns?: readonly { readonly name: string }[] | null
}

/** The connection on which a transaction or a reservation was first seen. */
const met = new WeakMap<object, { readonly connection: PostgresJsConnection; readonly reserved: unknown }>()

/**
 * Returns an object that identifies a transaction, a savepoint or a reservation, even if the handle is a proxy. The
 * query is never sent.
 */
export function scopeOf(sql: PostgresJs): object {
  return sql.unsafe('').handler ?? sql.unsafe
}

/** Returns whether a transaction or a reservation is known to have ended, including by the loss of its connection. */
export function hasEnded(sql: PostgresJs): boolean {
  const known = met.get(scopeOf(sql))
  return known !== undefined && known.connection.reserved !== known.reserved
}

export function closed(): Error {
  return Object.assign(new Error('The connection is closed, or was given back.'), {
    code: 'CONNECTION_CLOSED',
  })
}

/** Returns the options of a statement by which its connection becomes known. */
export function meeting(sql: PostgresJs): StatementOptions {
  const scope = scopeOf(sql)
  return {
    onexecute(connection) {
      const { reserved } = connection
      if (typeof reserved === 'function' && !met.has(scope)) met.set(scope, { connection, reserved })
      return true
    },
  }
}

/**
 * Runs `work` as postgres.js does, which sends COMMIT or ROLLBACK when `work` has ended. If the transaction has ended
 * before, by the loss of its connection for example, postgres.js never learns that `work` has ended: its ROLLBACK would
 * undo the transaction that has the connection by now, or end the process.
 *
 * @param outer the transaction, if this is a savepoint.
 * @param first a statement that is sent together with the first one of the transaction. If it fails, `open` rejects.
 */
export function inScope<T>(
  open: (work: (tx: PostgresJs) => Promise<T>) => Promise<T>,
  work: (tx: PostgresJs) => unknown,
  { outer, first = '' }: { readonly outer?: PostgresJs; readonly first?: string },
): Promise<T> {
  return new Promise((resolve, reject) => {
    const run = async (tx: PostgresJs): Promise<T> => {
      const sql = guarded(tx, outer, first)
      try {
        const result = work(sql)
        // postgres.js sends the queries that a callback returns in a list.
        const settled = await (Array.isArray(result) ? Promise.all(result) : result)
        if (hasEnded(sql)) throw closed()
        return settled as T
      } catch (error) {
        if (!hasEnded(sql)) throw error
        reject(error)
        return new Promise(() => undefined)
      }
    }
    open(run).then(resolve, reject)
  })
}

/**
 * Returns a handle that rejects its statements when the transaction has ended. On a lost connection, they would run in
 * the transaction that has the connection by then, or outside of one, or end the process.
 */
function guarded(tx: PostgresJs, outer: PostgresJs | undefined, first: string): PostgresJs {
  const { handler } = tx.unsafe('')
  if (handler === undefined) return tx
  const { unsafe, file, notify, savepoint } = tx as PostgresJsTransaction
  const guard: Handler = (query) => (hasEnded(sql) ? query.reject(closed()) : handler(query))
  // postgres.js calls the handler when the query is awaited, and never for a fragment of another query.
  const guarding =
    <A extends unknown[]>(make: (...args: A) => unknown) =>
    (...args: A): unknown => {
      const made = make(...args)
      if (propertyOf(made, 'handler') === handler) Object.assign(made as object, { handler: guard })
      return made
    }
  const refusing =
    (call: (...args: unknown[]) => unknown) =>
    (...args: unknown[]): unknown =>
      hasEnded(sql) ? Promise.reject(closed()) : call(...args)
  const sql: PostgresJs = Object.assign(guarding(tx as PostgresJsTransaction), tx, {
    unsafe: guarding(unsafe) as PostgresJs['unsafe'],
    file: refusing(file),
    notify: refusing(notify),
    savepoint: refusing((...args) => {
      const work = args.at(-1)
      if (typeof work !== 'function') return savepoint(...args)
      return inScope((run) => savepoint(...args.slice(0, -1), run), work as (tx: PostgresJs) => unknown, {
        outer: sql,
      })
    }),
  })
  const known = outer && met.get(scopeOf(outer))
  if (known !== undefined) met.set(guard, known)
  // This statement, which is sent together with the next one, makes the connection known. If it fails, `begin` rejects.
  else tx.unsafe(first, [], meeting(sql)).execute()
  return sql
}
