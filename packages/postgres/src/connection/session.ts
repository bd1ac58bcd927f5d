/*
 * PostgreSQL shows the state of a transaction, and whether a claim exists. MySQL and MariaDB hide both, so savepoints
 * are needed to find out.
 */
import {
  NotInTransactionError,
  TransactionAbortedError,
  UnsupportedTransactionError,
  isTxboxError,
  type Session,
} from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import {
  swallowedText,
  type Awaitable,
  type ConnectionMonitor,
  type Opening,
  type Resolved,
  type Resolver,
  type Snapshot,
  type SqlResult,
  type TransactionState,
} from '@txbox/sql/transactions'
import { translate } from './errors.ts'
import { sessionStatements } from './session-statements.ts'
import { endedMeanwhile, isRollingBack, sendInTurn } from './statement-turns.ts'

/** The content of the opaque {@link Session}. */
export interface PostgresSession extends Session, Resolved {
  /** Absent in a transaction that txbox itself opened: its session is closed when the transaction ends. */
  readonly monitor: ConnectionMonitor | undefined
  /** The monitor's snapshot from the moment when the transaction was found open. */
  readonly since: Snapshot | undefined
  /** Present as long as BEGIN has not been sent. */
  opening: Opening | undefined
}

/** Asks the server whether the rows that were written in the transaction still exist and are not committed. */
export type Holds = () => Promise<boolean>

/** See `DatabasePorts.bind`. */
export async function bind(resolver: Resolver, handle: unknown): Promise<PostgresSession> {
  if (opened.has(handle as object)) return handle as PostgresSession
  const found = resolver.transaction(handle)
  const resolved = found instanceof Promise ? await found : found
  const { driver, connection, name } = resolved
  let monitor: ConnectionMonitor | undefined
  let state: TransactionState
  try {
    // Awaited even if the state is known at once: otherwise this call could overtake an earlier call that still awaits it.
    monitor = await driver.monitor(connection)
    state = await driver.state(connection, monitor)
  } catch (error) {
    throw translate(error, 'checking whether a transaction is open')
  }
  if (state === 'none' || (state === 'unknown' && !(await isInTransaction(resolved)))) {
    throw new NotInTransactionError(
      `Expected an open transaction, but this ${name} handle has none. Pass the transaction, or the client ` +
        'after BEGIN, and not the pool or root. Nothing was written.',
    )
  }
  if (state === 'aborted') {
    throw new TransactionAbortedError(
      'An earlier statement of the transaction failed, so it can only roll back. Nothing was written.' +
        swallowedText(monitor?.abortedBy),
      { cause: monitor?.abortedBy },
    )
  }
  return sessionOn(resolved, undefined, monitor)
}

/** The sessions of transactions that txbox itself opened. */
const opened = new WeakSet<object>()

/** For a transaction that txbox itself opened, whose BEGIN may not have been sent yet. */
export async function openedSession(
  resolver: Resolver,
  handle: unknown,
  opening: Opening | undefined,
): Promise<PostgresSession> {
  const session = sessionOn(await resolver.transaction(handle), opening)
  opened.add(session)
  return session
}

function sessionOn(
  { driver, connection, name, isOpen, settled }: Resolved,
  opening: Opening | undefined,
  monitor?: ConnectionMonitor,
): PostgresSession {
  // Listed instead of copied and extended, which takes several times as long.
  return {
    driver,
    connection,
    name,
    isOpen,
    settled,
    opening,
    monitor,
    since: monitor?.snapshot(),
  } as never
}

/** Runs a statement of txbox in the caller's transaction. */
export async function execute(
  session: Session,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  try {
    if ((session as PostgresSession).opening !== undefined) await open(session)
    return await sendInTurn(session as PostgresSession, text, values)
  } catch (error) {
    throw translate(error, doing)
  }
}

/** Sends BEGIN if it has not been sent yet. */
export async function open(session: Session): Promise<void> {
  await openingOf(session as PostgresSession)?.alone()
}

/** Returns the opening of a transaction whose BEGIN the caller sends now. */
function openingOf(session: PostgresSession): Opening | undefined {
  const { opening, isOpen } = session
  if (opening === undefined) return undefined
  // The connection may be in use by others.
  if (!isOpen()) throw endedMeanwhile()
  session.opening = undefined
  return opening
}

/**
 * Like `execute`, for a statement that returns no rows and may be the first of the transaction.
 *
 * @returns the number of rows that the statement wrote.
 */
export async function write(
  session: Session,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<number> {
  const own = session as PostgresSession
  let affected: number
  try {
    const opening = openingOf(own)
    if (opening === undefined) ({ affected } = await sendInTurn(own, text, values))
    else affected = await opening.with(text, values)
  } catch (error) {
    throw translate(error, doing)
  }
  if (!Number.isNaN(affected)) return affected
  throw new UnsupportedTransactionError(
    `This ${own.name} transaction does not report how many rows a statement has written (numAffectedRows), so txbox ` +
      'cannot distinguish a first delivery from a duplicate. Roll back, and use a dialect that reports this number.',
  )
}

/**
 * See `DatabasePorts.watch`, and for claims `HandlerGuard`.
 *
 * @param holds asks about the claims. Asked only if the answers of the connection leave a doubt.
 */
export async function watch<R>(session: Session, handler: () => Promise<R> | R, holds?: Holds): Promise<R> {
  const { driver, connection, monitor, opening, settled, since } = session as PostgresSession
  if (opening !== undefined) await open(session)
  const watching = monitor ?? (await driver.monitor(connection))
  const snapshot = watching?.snapshot()
  // Another call may have failed meanwhile, and its caller may have rolled back: the handler would have an effect without its
  // claim.
  const isRolledBack = isRollingBack(session as PostgresSession, since)
  if (isRolledBack !== false && (await isRolledBack)) throw endedMeanwhile()
  const result = await handler()
  if (settled !== undefined) await settled()
  const state = stateAfter(session as PostgresSession)
  if (state !== 'open' || !isUndisturbed(snapshot)) {
    await assertOpen(state, snapshot, watching, holds ?? (() => isInTransaction(session as PostgresSession)))
  }
  return result
}

/** A function of a library may throw, which means no more than a state that cannot be found out. */
function stateAfter({ driver, connection, isOpen }: PostgresSession): Awaitable<TransactionState> {
  try {
    return isOpen() ? driver.state(connection) : 'none'
  } catch (error) {
    return Promise.reject(error)
  }
}

/** The server refuses a savepoint outside of a transaction block: 25P01, "no active sql transaction". */
async function isInTransaction({ driver, connection }: Resolved): Promise<boolean> {
  try {
    await driver.query(connection, sessionStatements.setProbe, [])
    await driver.query(connection, sessionStatements.releaseProbe, [])
    return true
  } catch (error) {
    if (propertyOf(error, 'code') === '25P01') return false
    throw translate(error, 'checking whether a transaction is open')
  }
}

/** Checks the transaction after a handler, or a caller's work, has returned. */
async function assertOpen(
  asked: Awaitable<TransactionState>,
  snapshot: Snapshot | undefined,
  monitor: ConnectionMonitor | undefined,
  holds: Holds,
): Promise<void> {
  // Later statements of txbox may fail too.
  let swallowed: unknown
  let cause: unknown
  let state: TransactionState | undefined
  try {
    // A statement that is still in flight may end the transaction. Therefore ask for the state first, and read the
    // snapshot after the answer.
    state = await asked
    swallowed = monitor?.abortedBy
    if (state === 'open' && isUndisturbed(snapshot)) return
    const isLost = state === 'none' || state === 'aborted' || snapshot?.ended === true
    if (!isLost && (await holds())) return
  } catch (error) {
    cause = translate(error, 'checking the transaction after the handler')
    // A conflict or an outage of the check itself says nothing about what the handler has done.
    if (isTxboxError(cause) && cause.retryable) throw cause
  }
  throw new TransactionAbortedError(
    'The handler returned although an error had aborted its transaction, a statement had ended the transaction, or the claim ' +
      'had been rolled back. Its effects do not commit together with the claim: after a COMMIT in the handler, all that was ' +
      'written before it, the claim included, and what was written after it without a transaction is committed already, and ' +
      'a redelivery is a duplicate. Roll back. In the handler, let SQL errors leave the handler, do not commit, and roll ' +
      `back only to savepoints that the handler has set.${swallowedText(swallowed)}`,
    { cause: swallowed ?? cause, mayHaveCommitted: mayHaveCommitted(state, snapshot, cause) },
  )
}

/** An aborted transaction commits nothing, but an earlier one may have committed before it. */
function mayHaveCommitted(
  state: TransactionState | undefined,
  snapshot: Snapshot | undefined,
  cause: unknown,
): boolean {
  const isAborted = state === 'aborted' || cause !== undefined
  if (isAborted && snapshot?.replaced !== true) return false
  return snapshot?.mayHaveCommitted ?? true
}

/** If a connection cannot be monitored, only the server knows its state. */
function isUndisturbed(snapshot: Snapshot | undefined): boolean {
  return snapshot !== undefined && !snapshot.doubtful && !snapshot.rolledBack && !snapshot.ended
}
