import {
  InvalidOptionError,
  type ConnectedPorts,
  type IsolationLevel,
  type Session,
  type TransactOptions,
} from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import type { DatabaseErrors } from './database-errors.ts'
import type { Opening, RootAdapter } from './handle-adapter.ts'

const ISOLATIONS: readonly unknown[] = [
  'read committed',
  'repeatable read',
  'serializable',
] satisfies IsolationLevel[]

/**
 * One transaction of a root, with the database's errors for those of BEGIN, COMMIT and the connection.
 *
 * @param sessionOn makes the session, and whatever has to happen before the work.
 */
export function transactOn(
  { root, db }: { readonly root: RootAdapter; readonly db: unknown },
  errors: DatabaseErrors,
  sessionOn: (tx: unknown, opening: Opening | undefined) => Promise<Session>,
): ConnectedPorts['transact'] {
  return async (work, { isolation, signal }) => {
    // What `work` throws comes out untouched; every other error is of BEGIN, COMMIT or the connection.
    let thrown: { error: unknown } | undefined
    let doing = 'opening the transaction'
    try {
      return await root.transact(
        db,
        async (tx, opening) => {
          try {
            signal?.throwIfAborted()
            const result = await work(tx, await sessionOn(tx, opening))
            doing = 'committing the transaction (without an answer it may have happened)'
            return result
          } catch (error) {
            thrown = { error }
            throw error
          }
        },
        isolation,
      )
    } catch (error) {
      if (thrown !== undefined) throw thrown.error
      throw errors.translate(error, doing)
    }
  }
}

/**
 * The public `transact` of a database, which checks its options.
 *
 * @param around runs the user's work between whatever the database has to do before and after it.
 */
export function publicTransact(
  ports: Pick<ConnectedPorts, 'transact'>,
  around: <R>(session: Session, work: () => Promise<R>) => Promise<R>,
): <R>(work: (tx: unknown) => Promise<R>, options?: TransactOptions) => Promise<R> {
  return async (work, options = {}) =>
    ports.transact((tx, session) => around(session, () => work(tx)), transactOptions(options))
}

/** @throws {InvalidOptionError} for an unknown option, an unknown isolation level, or a `signal` that is no AbortSignal. */
export function transactOptions(options: TransactOptions): TransactOptions {
  const check = new OptionChecker('transact', options).known('isolation', 'signal')
  const { isolation } = options
  if (isolation !== undefined && !ISOLATIONS.includes(isolation)) {
    throw check.wrong('isolation', ISOLATIONS.map((level) => `'${String(level)}'`).join(' or '))
  }
  return { isolation, signal: check.signal('signal') }
}

/**
 * A relay renews its leases on a connection that nothing else waits for.
 *
 * @param advice says how to give the pool more connections.
 * @throws {InvalidOptionError} when the pool opens a single connection.
 */
export function assertTwoConnections(root: RootAdapter, db: unknown, advice: string): void {
  const most = root.maxConnections(db)
  if (most === undefined || most >= 2) return
  throw new InvalidOptionError(
    `The pool has only one connection. A relay needs two at least: leases are renewed on one of their own. ${advice}`,
  )
}
