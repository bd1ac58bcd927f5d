import {
  InvalidOptionError,
  TransactionAbortedError,
  type IsolationLevel,
  type Session,
  type TransactOptions,
} from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { OptionChecker, nameOf, reasonOf, unlessAborted } from '@txbox/core/internal'
import type { DatabaseErrors } from '../errors/database-errors.ts'
import { LostTransaction } from './end-of-connection.ts'
import type { Resolved } from './adapters.ts'
import type { Opening, RootAdapter } from './root-adapter.ts'
import { inheritLoss, recordLoss, recordLossOf } from './lost-connections.ts'

const ISOLATIONS: readonly unknown[] = [
  'read committed',
  'repeatable read',
  'serializable',
] satisfies IsolationLevel[]

const OPENING = 'opening the transaction'

/**
 * Runs one transaction of a root, and translates the errors of BEGIN, COMMIT and the connection.
 *
 * When the signal is aborted while `work` runs, the transaction is given up: its connection is closed, and nothing
 * waits for `work`. If the library hides its connection, the transaction is rolled back when `work` has ended, because
 * a later statement of `work` might otherwise run outside the transaction.
 *
 * @param root the root, and whether its `transact` rejects when the server has rolled back instead of committing
 *   (`checksCommit`). If not, the end of the transaction is observed, unless the library hides its connection.
 * @param sessionOn creates the session of the transaction, and prepares the work.
 */
export function transactOn(
  {
    root,
    db,
    checksCommit,
  }: { readonly root: RootAdapter; readonly db: unknown; readonly checksCommit: boolean },
  errors: DatabaseErrors,
  sessionOn: (tx: unknown, opening: Opening | undefined) => Promise<Session & Resolved>,
): ConnectedPorts['transact'] {
  return async (work, { isolation, signal, idleLimitMs }) => {
    // An error that `work` throws is rethrown unchanged; every other error comes from BEGIN, COMMIT or the connection.
    let thrown: { error: unknown } | undefined
    let doing = OPENING
    let isCommitted = true
    const lost = new LostTransaction(errors)
    try {
      const result = await root.transact(
        db,
        async (tx, opening) => {
          let session: (Session & Resolved) | undefined
          try {
            signal?.throwIfAborted()
            session = await sessionOn(tx, opening)
            lost.watch(session)
            if (root.limitsIdleTime !== true) await limitIdleTime(session, idleLimitMs, errors)
            if (!checksCommit) await onceEnded(session, (committed) => (isCommitted = committed))
            const open = session
            const result = await whileOpen(open, async () =>
              signal === undefined
                ? work(tx, open)
                : untilAborted(() => work(tx, open), signal, await severing(open)),
            )
            doing = 'committing the transaction (without an answer, the transaction may have committed)'
            return result
          } catch (error) {
            thrown = { error }
            if (session !== undefined && signal?.aborted !== true) await recordLossOf(error, errors, session)
            throw error
          }
        },
        isolation,
        idleLimitMs,
      )
      if (isCommitted) return result
    } catch (error) {
      if (thrown === undefined) {
        const translated = lost.translate(error, doing)
        if (doing !== OPENING) recordLoss(translated)
        throw translated
      }
    } finally {
      lost.stop()
    }
    // Knex resolves when the work has thrown `undefined`.
    if (thrown !== undefined) {
      const explained = lost.explain(thrown.error)
      inheritLoss(thrown.error, explained)
      throw explained
    }
    throw new TransactionAbortedError(
      'The server rolled the transaction back instead of committing it, because a statement that was sent after the work had ' +
        'failed: one that nobody awaited, or one of a hook of the library. Nothing was written.',
    )
  }
}

/** The limit is set before `work`, which locks rows: a process that is frozen must not keep them. */
async function limitIdleTime(
  { driver, connection }: Resolved,
  idleLimitMs: number | undefined,
  errors: DatabaseErrors,
): Promise<void> {
  if (idleLimitMs === undefined) return
  try {
    await driver.limitIdleTime?.(connection, idleLimitMs)
  } catch (error) {
    throw errors.translate(error, OPENING)
  }
}

async function onceEnded(
  { driver, connection }: Resolved,
  listener: (isCommitted: boolean) => void,
): Promise<void> {
  const monitor = await driver.monitor(connection)
  monitor?.onceEnded?.(listener)
}

/**
 * Lets the session refuse its statements as soon as the work has ended: a statement that nobody awaited would otherwise
 * run in the next transaction of the same connection, and commit with it.
 */
async function whileOpen<R>(session: Resolved, work: () => Promise<R>): Promise<R> {
  const { isOpen } = session
  let hasEnded = false
  Object.assign(session, { isOpen: () => !hasEnded && isOpen() })
  try {
    return await work()
  } finally {
    hasEnded = true
  }
}

/** Returns a function that closes the session's connection; `undefined` if the library hides the connection. */
async function severing({ driver, connection }: Resolved): Promise<(() => void) | undefined> {
  const { sever } = driver
  if (sever === undefined || driver.canSever?.(connection) === false) return undefined
  // Kysely's connection can be severed only if it is monitored.
  await driver.monitor(connection)
  return () => sever(connection)
}

/**
 * Rejects with the signal's reason as soon as the signal is aborted, unless the work has already ended. If the
 * connection cannot be severed, waits for the work, which could still write.
 */
async function untilAborted<R>(
  work: () => Promise<R>,
  signal: AbortSignal,
  sever: (() => void) | undefined,
): Promise<R> {
  signal.throwIfAborted()
  const severed = (): boolean => {
    try {
      sever!()
      return true
    } catch (error) {
      // The user's own `close` has failed. As with a hidden connection, `transact` waits for the work.
      process.emitWarning(
        `A transaction was aborted, but its connection could not be closed (${reasonOf(error)}). The rollback waits for the handler.`,
        { type: 'TxboxWarning', code: 'TXBOX_CLOSE_FAILED' },
      )
      return false
    }
  }
  const result = await (sever === undefined ? work() : unlessAborted(work(), signal, severed))
  signal.throwIfAborted()
  return result
}

/**
 * Creates the public `transact` of a database, which checks its options.
 *
 * @param around runs the user's work between steps of the database before and after it.
 */
export function publicTransact(
  ports: Pick<ConnectedPorts, 'transact'>,
  around: <R>(session: Session, work: () => Promise<R>) => Promise<R>,
): <R>(work: (tx: unknown) => Promise<R>, options?: TransactOptions) => Promise<R> {
  return async (work, options = {}) => {
    if (typeof work !== 'function') {
      throw new InvalidOptionError(
        `transact: expected a function that is called with the transaction, not ${nameOf(work)}. Nothing was written.`,
      )
    }
    return ports.transact((tx, session) => around(session, () => work(tx)), transactOptions(options))
  }
}

/**
 * @throws {InvalidOptionError} for an unknown option, an unknown isolation level, or a `signal` that is not an
 * AbortSignal.
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
 * Checks that a root can open at least two connections, because a relay renews its leases on a connection of its own.
 *
 * @param advice how to give the pool more connections.
 * @throws {InvalidOptionError} when the pool opens only one connection.
 */
export function assertTwoConnections(root: RootAdapter, db: unknown, advice: string): void {
  const most = root.maxConnections(db)
  if (most === undefined || most >= 2) return
  throw new InvalidOptionError(
    `The pool has only one connection. A relay needs at least two, because it renews its leases on a separate one. ${advice}`,
  )
}
