import type { IsolationLevel, TransactionLibrary } from '@txbox/core'
import { hasFunction, hasNumber, hasObject } from '../members.ts'
import { movedInternals } from './moved-internals.ts'

interface DrizzleDatabase {
  /** The pool, connection or client that was passed to `drizzle()`. */
  readonly $client?: unknown
  transaction<T>(
    work: (tx: DrizzleTransaction) => Promise<T>,
    config?: { readonly isolationLevel: IsolationLevel },
  ): Promise<T>
}
/** A transaction, or a database that was passed by mistake. Only a transaction has `nestedIndex`. */
interface DrizzleTransaction {
  readonly session: { readonly client?: unknown }
}

/** Drizzle 0.45 and 1.0.0-rc. `session.client` is undocumented; if it is missing, the transaction is refused. */
export const drizzle: TransactionLibrary<DrizzleTransaction, DrizzleDatabase> = {
  name: 'Drizzle',
  recognises: (handle): handle is DrizzleTransaction => isDrizzle(handle),
  connectionOf(handle) {
    if (!hasNumber(handle, 'nestedIndex')) return undefined
    const { client } = handle.session
    if (client === undefined) throw movedInternals('Drizzle', 'tx.session.client', '0.45 and 1.0.0-rc.5')
    return client
  },
  root: {
    recognises: (root): root is DrizzleDatabase => isDrizzle(root) && !hasNumber(root, 'nestedIndex'),
    poolOf: ({ $client }) => $client,
    transact: (db, work, isolation) =>
      isolation === undefined ? db.transaction(work) : db.transaction(work, { isolationLevel: isolation }),
  },
}

function isDrizzle(value: unknown): boolean {
  return (
    hasObject(value, 'session') &&
    hasObject(value, 'dialect') &&
    hasFunction(value, 'transaction') &&
    hasFunction(value, 'execute')
  )
}
