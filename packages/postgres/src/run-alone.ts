import { answerWithin } from '@txbox/core'
import type { RootAdapter, SqlResult } from '@txbox/handles'
import { isConflict, translate } from './errors.ts'

const ATTEMPTS = 5

/** Where statements go, and how long an answer may take. */
export interface Source {
  readonly root: RootAdapter
  readonly db: unknown
  readonly statementTimeoutMs: number
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
  for (let attempt = 1; ; attempt++) {
    try {
      return await answerWithin(statementTimeoutMs, root.query(db, text, values, statementTimeoutMs))
    } catch (error) {
      if (attempt === ATTEMPTS || !isConflict(error)) throw translate(error, doing)
    }
  }
}
