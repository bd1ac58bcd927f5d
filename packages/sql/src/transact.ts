import {
  InvalidOptionError,
  type ConnectedPorts,
  type IsolationLevel,
  type Session,
  type TransactOptions,
} from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import type { DatabaseErrors } from './database-errors.ts'
import type { Opening, Resolved, RootAdapter } from './adapters.ts'

const ISOLATIONS: readonly unknown[] = [
  'read committed',
  'repeatable read',
  'serializable',
] satisfies IsolationLevel[]

/**
 * Runs one transaction of a root, and translates the errors of BEGIN, COMMIT and the connection.
 *
 * When the signal is aborted while `work` runs, the transaction is given up: its connection is closed, and nothing waits
 * for `work`. If the library hides its connection, the transaction is rolled back when `work` has ended, because a later
 * statement of `work` might otherwise run outside the transaction.
 *
 * @param sessionOn creates the session, and prepares the work.
 */
export function transactOn(
  { root, db }: { readonly root: RootAdapter; readonly db: unknown },
  errors: DatabaseErrors,
  sessionOn: (tx: unknown, opening: Opening | undefined) => Promise<Session & Resolved>,
): ConnectedPorts['transact'] {
  return async (work, { isolation, signal }) => {
    // An error that `work` throws is rethrown unchanged; every other error is of BEGIN, COMMIT or the connection.
    let thrown: { error: unknown } | undefined
    let doing = 'opening the transaction'
    try {
      return await root.transact(
        db,
        async (tx, opening) => {
          try {
            signal?.throwIfAborted()
            const session = await sessionOn(tx, opening)
            const { driver, connection } = session
            const sever = driver.canSever?.(connection) === false ? undefined : driver.sever
            const result = await orAborted(work(tx, session), signal, sever && (() => sever(connection)))
            doing = 'committing the transaction (without an answer, the transaction may have committed)'
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
 * Rejects with the signal's reason as soon as the signal is aborted, unless the work has ended before. Without `sever`,
 * waits for the work.
 */
async function orAborted<R>(
  work: Promise<R>,
  signal: AbortSignal | undefined,
  sever: (() => void) | undefined,
): Promise<R> {
  if (signal === undefined) return work
  if (sever === undefined) {
    const result = await work
    signal.throwIfAborted()
    return result
  }
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      try {
        sever()
      } finally {
        reject(signal.reason as Error)
      }
    }
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/**
 * The public `transact` of a database, which checks its options.
 *
 * @param around runs the user's work between the database's own work before and after it.
 */
export function publicTransact(
  ports: Pick<ConnectedPorts, 'transact'>,
  around: <R>(session: Session, work: () => Promise<R>) => Promise<R>,
): <R>(work: (tx: unknown) => Promise<R>, options?: TransactOptions) => Promise<R> {
  return async (work, options = {}) =>
    ports.transact((tx, session) => around(session, () => work(tx)), transactOptions(options))
}

/**
 * @throws {InvalidOptionError} for an unknown option, an unknown isolation level, or a `signal` that is not an
 *   AbortSignal.
 */
export function transactOptions(options: TransactOptions): TransactOptions {
  const check = new OptionChecker('transact', options).known('isolation', 'signal')
  const { isolation } = options
  if (isolation !== undefined && !ISOLATIONS.includes(isolation)) {
    throw check.wrong('isolation', ISOLATIONS.map((level) => `'${String(level)}'`).join(' or '))
  }
  return { isolation, signal: check.signal('signal') }
}

/**
 * Checks that a root has two connections: a relay renews its leases on a separate connection.
 *
 * @param advice how to give the pool more connections.
 * @throws {InvalidOptionError} when the pool opens a single connection.
 */
export function assertTwoConnections(root: RootAdapter, db: unknown, advice: string): void {
  const most = root.maxConnections(db)
  if (most === undefined || most >= 2) return
  throw new InvalidOptionError(
    `The pool has only one connection. A relay needs at least two, because it renews its leases on a separate one. ${advice}`,
  )
}
