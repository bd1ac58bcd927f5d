import { answerWithin } from '@txbox/core'
import type { RootAdapter, SqlResult } from '@txbox/sql'
import { isConflict, translate } from './errors.ts'
import { inOwnTransaction } from './own-transaction.ts'

const ATTEMPTS = 5

/** The share of the timeout after which the server cancels a late statement, so that the answer still reaches the client. */
const SERVER_SHARE = 0.9

/** Where statements go, and how long an answer may take. */
export interface Source {
  readonly root: RootAdapter
  readonly db: unknown
  readonly statementTimeoutMs: number
}

/** When the server has to cancel a statement. */
export function cancelAfterMs({ statementTimeoutMs }: Pick<Source, 'statementTimeoutMs'>): number {
  return Math.ceil(statementTimeoutMs * SERVER_SHARE)
}

/**
 * One statement that is a transaction of its own, and harmless to repeat; a conflict comes up where the server's default
 * isolation is strict.
 */
export async function runAlone(
  source: Source,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  return again(doing, () =>
    answerWithin(statementTimeoutMs, root.query(db, text, values, statementTimeoutMs)),
  )
}

/**
 * The same at READ COMMITTED, whatever the default of the role or the server is, and cancelled by the server when it is
 * late: otherwise a relay would make producers at SERIALIZABLE fail, and leave a backend behind for each statement that
 * waits for a lock on the table.
 */
export async function runAtReadCommitted(
  source: Source,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  const limits = { timeoutMs: statementTimeoutMs, cancelAfterMs: cancelAfterMs(source) }
  const queryAlone = root.queryAlone?.(db)
  if (queryAlone === undefined) {
    return again(doing, () => inOwnTransaction(source, limits.cancelAfterMs, text, values))
  }
  return again(doing, () => answerWithin(statementTimeoutMs, queryAlone(text, values, limits)))
}

/** What a library lets through of a COPY. */
export type CopyOut = NonNullable<ReturnType<NonNullable<RootAdapter['copyOut']>>>

/** The same for a COPY that only reads. `begin` makes what takes its rows, anew for each attempt. */
export async function copyAlone<R extends { add(bytes: Buffer): void }>(
  { statementTimeoutMs }: Source,
  copyOut: CopyOut,
  doing: string,
  text: string,
  begin: () => R,
): Promise<R> {
  return again(doing, async () => {
    const result = begin()
    const copied = copyOut(text, statementTimeoutMs, (bytes) => result.add(bytes))
    await answerWithin(statementTimeoutMs, copied)
    return result
  })
}

async function again<R>(doing: string, run: () => Promise<R>): Promise<R> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (attempt === ATTEMPTS || !isConflict(error)) throw translate(error, doing)
    }
  }
}
