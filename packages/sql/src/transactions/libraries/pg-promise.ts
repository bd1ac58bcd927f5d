import type { TransactionLibrary } from '@txbox/core'
import { hiddenStatements } from '../drivers/hidden-statements.ts'
import { isInTransaction, isPgPromise } from '../drivers/pg-promise.ts'
import { hasObject } from '../members.ts'

interface PgPromiseDatabase {
  /** A `pg.Pool`. */
  readonly $pool: unknown
  tx<T>(work: (tx: PgPromiseTransaction) => Promise<T>): Promise<T>
}
interface PgPromiseTransaction {
  none(text: string): Promise<unknown>
}

/** The database of pg-promise 12, or a task outside of a transaction that was passed by mistake. */
export const pgPromise: TransactionLibrary<PgPromiseTransaction, PgPromiseDatabase> = {
  name: 'pg-promise',
  recognises: (handle): handle is PgPromiseTransaction => isPgPromise(handle) && !isInTransaction(handle),
  connectionOf: () => undefined,
  root: {
    recognises: (root): root is PgPromiseDatabase => isPgPromise(root) && hasObject(root, '$pool'),
    poolOf: ({ $pool }) => $pool,
    transact: (db, work, isolation) =>
      db.tx(async (tx) => {
        if (isolation !== undefined) await tx.none(hiddenStatements.setLevel(isolation))
        return work(tx)
      }),
  },
}
