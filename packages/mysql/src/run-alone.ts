import { answerWithin } from '@txbox/core'
import { recogniseHandle, type RootAdapter, type SqlResult } from '@txbox/handles'
import { isConflict, translate } from './errors.ts'
import { fill, type Value } from './literals.ts'
import type { ServerTraits } from './server.ts'

const ATTEMPTS = 5

/** How long a transaction may be open without a statement, in seconds: then the server ends it, and its locks. */
const IDLE_S = 2

/** Where statements go, and how long an answer may take. */
export interface Source {
  readonly root: RootAdapter
  readonly db: unknown
  readonly statementTimeoutMs: number
  readonly server: () => Promise<ServerTraits>
}

export type Run = (text: string, values: readonly Value[]) => Promise<SqlResult>

/** One statement that is a transaction of its own, and harmless to repeat. */
export async function runAlone(
  source: Source,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  const statement = fill(text, values)
  return again(doing, async () => {
    const { autocommit } = await source.server()
    if (autocommit) return root.query(db, statement, [], statementTimeoutMs)
    // Where connections do not commit by themselves, a read would keep its snapshot for ever.
    const work = (tx: unknown): Promise<SqlResult> => recogniseHandle(tx, 'mysql2').query(tx, statement, [])
    return root.transact(db, work, undefined)
  })
}

/**
 * A short transaction of several statements, harmless to repeat, at READ COMMITTED: a search locks what it finds, and not
 * what it has looked at. If this process stands still in the middle, the server soon ends it: the locks would keep
 * others waiting for as long.
 */
export async function runTogether<R>(
  source: Source,
  doing: string,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  const { root, db, statementTimeoutMs } = source
  const transaction = (): Promise<R> =>
    root.transact(
      db,
      async (tx) => {
        const handle = recogniseHandle(tx, 'mysql2')
        const run: Run = (text, values) => handle.query(tx, fill(text, values), [])
        await run(`set @txbox_wait = @@session.wait_timeout, session wait_timeout = ${IDLE_S}`, [])
        try {
          return await work(run)
        } finally {
          // A connection that is gone has no settings either.
          await run('set session wait_timeout = @txbox_wait', []).catch(() => undefined)
        }
      },
      'read committed',
    )
  return again(doing, () => answerWithin(statementTimeoutMs, transaction()))
}

async function again<R>(doing: string, attempt: () => Promise<R>): Promise<R> {
  for (let n = 1; ; n++) {
    try {
      return await attempt()
    } catch (error) {
      if (n === ATTEMPTS || !isConflict(error)) throw translate(error, doing)
    }
  }
}
