/*
 * PostgreSQL runs a statement at READ COMMITTED with a time limit in a transaction of its own, and copies rows in
 * binary. MySQL and MariaDB limit the time of a statement with a hint, and run short transactions of several
 * statements.
 */
import {
  repeatOnConflict,
  withinPool,
  type RootAdapter,
  type StatementRoot,
  type SqlResult,
} from '@txbox/sql/transactions'
import { errors } from './errors.ts'
import { inOwnTransaction, serverTimeoutMs, type OwnTransaction } from './own-transaction.ts'

/**
 * Runs one statement as its own transaction. The statement must be safe to repeat, because at a strict default
 * isolation level it can fail with a conflict.
 */
export async function runAlone(
  { root, db, statementTimeoutMs }: StatementRoot,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  return repeatOnConflict(errors, doing, () =>
    withinPool(() => root.query(db, text, values, statementTimeoutMs), statementTimeoutMs),
  )
}

/**
 * Like `runAlone`, but at READ COMMITTED, whatever the default of the role or the server is, and with a time after
 * which the server cancels the statement. Otherwise a relay would make producers at SERIALIZABLE fail, and each
 * statement that waits for a lock on the table would leave a backend behind.
 */
export async function runAtReadCommitted(
  source: StatementRoot,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  return repeatOnConflict(errors, doing, () => atReadCommitted(source, text, values))
}

/** One attempt of `runAtReadCommitted`. */
export async function atReadCommitted(
  source: StatementRoot,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  const queryAlone = root.queryAlone?.(db)
  if (queryAlone === undefined)
    return inOwnTransaction(source, async ({ commitWith }) => (await commitWith([{ text, values }]))[0]!)
  const limits = { timeoutMs: statementTimeoutMs, cancelAfterMs: serverTimeoutMs(source) }
  return withinPool(() => queryAlone(text, values, limits), statementTimeoutMs)
}

/** The transaction must be safe to repeat. */
export function runTogether<R>(
  source: StatementRoot,
  doing: string,
  work: (transaction: OwnTransaction) => Promise<R>,
): Promise<R> {
  return repeatOnConflict(errors, doing, () => inOwnTransaction(source, work))
}

export type CopyOut = NonNullable<ReturnType<NonNullable<RootAdapter['copyOut']>>>

/**
 * Like `runAtReadCommitted`, for a COPY that only reads. `begin` creates the receiver of the rows, once for each
 * attempt.
 */
export async function copyAlone<R extends { add(bytes: Buffer): void }>(
  { statementTimeoutMs }: StatementRoot,
  copyOut: CopyOut,
  doing: string,
  text: string,
  begin: () => R,
): Promise<R> {
  return repeatOnConflict(errors, doing, async () => {
    const result = begin()
    const copy = (): Promise<void> => copyOut(text, statementTimeoutMs, (bytes) => result.add(bytes))
    await withinPool(copy, statementTimeoutMs)
    return result
  })
}
