/*
 * PostgreSQL runs a statement at READ COMMITTED and bounds it by a transaction of its own, and copies rows out in
 * binary. MySQL and MariaDB bound a statement by a hint, and run short transactions of several statements.
 */
import { answerWithin } from '@txbox/core/internal'
import { cancelAfterMs, repeatOnConflict, type RootAdapter, type Source, type SqlResult } from '@txbox/sql'
import { errors } from './errors.ts'
import { inOwnTransaction } from './own-transaction.ts'

/** When the server has to cancel a statement, in whole ms. */
export function serverTimeoutMs({ statementTimeoutMs }: Pick<Source, 'statementTimeoutMs'>): number {
  return Math.ceil(cancelAfterMs(statementTimeoutMs))
}

/**
 * One statement that is a transaction of its own, and harmless to repeat: conflicts occur where the server's default
 * isolation is strict.
 */
export async function runAlone(
  { root, db, statementTimeoutMs }: Source,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  return repeatOnConflict(errors, doing, () =>
    answerWithin(statementTimeoutMs, root.query(db, text, values, statementTimeoutMs)),
  )
}

/**
 * As `runAlone`, at READ COMMITTED whatever the default of the role or the server is, and canceled by the server when it is
 * late: otherwise a relay would make producers at SERIALIZABLE fail, and leave a backend behind for each statement that
 * waits for a lock on the table.
 */
export async function runAtReadCommitted(
  source: Source,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  return repeatOnConflict(errors, doing, () => atReadCommitted(source, text, values))
}

/** One attempt of `runAtReadCommitted`. */
export async function atReadCommitted(
  source: Source,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  const mostMs = serverTimeoutMs(source)
  const queryAlone = root.queryAlone?.(db)
  if (queryAlone === undefined) return inOwnTransaction(source, mostMs, text, values)
  const limits = { timeoutMs: statementTimeoutMs, cancelAfterMs: mostMs }
  return answerWithin(statementTimeoutMs, queryAlone(text, values, limits))
}

/** The COPY of a library that lets it through. */
export type CopyOut = NonNullable<ReturnType<NonNullable<RootAdapter['copyOut']>>>

/** As `runAtReadCommitted`, for a COPY that only reads. `begin` makes what takes the rows, once for each attempt. */
export async function copyAlone<R extends { add(bytes: Buffer): void }>(
  { statementTimeoutMs }: Source,
  copyOut: CopyOut,
  doing: string,
  text: string,
  begin: () => R,
): Promise<R> {
  return repeatOnConflict(errors, doing, async () => {
    const result = begin()
    const copied = copyOut(text, statementTimeoutMs, (bytes) => result.add(bytes))
    await answerWithin(statementTimeoutMs, copied)
    return result
  })
}
