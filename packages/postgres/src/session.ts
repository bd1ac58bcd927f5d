/*
 * PostgreSQL shows the state of a transaction, and whether a claim exists; MySQL and MariaDB hide both, so that
 * savepoints must reveal them.
 */
import {
  NotInTransactionError,
  TransactionAbortedError,
  UnsupportedTransactionError,
  type Session,
} from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import {
  recogniseHandle,
  type ConnectionMonitor,
  type HandleAdapter,
  type Opening,
  type Snapshot,
  type SqlResult,
  type TransactionState,
} from '@txbox/sql'
import { translate } from './errors.ts'
import { sessionStatements } from './session-statements.ts'

/** The content of the opaque {@link Session}. */
export interface PostgresSession extends Session {
  readonly adapter: HandleAdapter
  readonly handle: unknown
  /** Absent until the state of the handle was checked. */
  monitor?: ConnectionMonitor | undefined
  /** BEGIN has not been sent. */
  opening: Opening | undefined
  /**
   * Checks whether the rows that the session wrote still exist and are not committed. Absent if the session wrote no
   * rows.
   */
  holds?: () => Promise<boolean>
}

/** See `DatabasePorts.bind`. */
export async function bind(handle: unknown): Promise<PostgresSession> {
  const adapter = recogniseHandle(handle, 'postgres')
  const session = sessionOf(handle, undefined)
  let state: TransactionState
  try {
    session.monitor = await adapter.monitor(handle)
    state = await adapter.state(handle, session.monitor)
  } catch (error) {
    throw translate(error, 'checking whether a transaction is open')
  }
  if (state === 'none' || (state === 'unknown' && !(await isInTransaction(session)))) {
    throw new NotInTransactionError(
      `Expected an open transaction, but this ${adapter.library} handle has none. Pass the transaction, or the client ` +
        'after BEGIN, and not the pool or root. Nothing was written.',
    )
  }
  if (state === 'aborted') {
    throw new TransactionAbortedError(
      'An earlier statement of the transaction failed, so it can only roll back. Nothing was written.',
    )
  }
  return session
}

/** Creates a session for a recognized transaction, or for one that txbox has opened. */
export function sessionOf(handle: unknown, opening: Opening | undefined): PostgresSession {
  return { adapter: recogniseHandle(handle, 'postgres'), handle, opening } as PostgresSession
}

/** Runs a statement of txbox in the caller's transaction. */
export async function execute(
  session: Session,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { adapter, handle } = session as PostgresSession
  try {
    await open(session)
    return await sendInTurn(adapter, handle as object, text, values)
  } catch (error) {
    throw translate(error, doing)
  }
}

/** Sends BEGIN if it has not been sent yet. */
export async function open(session: Session): Promise<void> {
  const { opening } = session as PostgresSession
  if (opening === undefined) return
  ;(session as PostgresSession).opening = undefined
  await opening.alone()
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
  const { adapter, opening } = session as PostgresSession
  if (opening !== undefined) {
    ;(session as PostgresSession).opening = undefined
    try {
      return await opening.with(text, values)
    } catch (error) {
      throw translate(error, doing)
    }
  }
  const { affected } = await execute(session, doing, text, values)
  if (!Number.isNaN(affected)) return affected
  throw new UnsupportedTransactionError(
    `This ${adapter.library} transaction does not report how many rows a statement has written (numAffectedRows), so txbox ` +
      'cannot distinguish a first delivery from a duplicate. Roll back, and use a dialect that reports this number.',
  )
}

/** The last call on each handle that found statements in flight and waits for its turn to be sent. */
const turns = new WeakMap<object, Promise<unknown>>()

/**
 * Sends a statement in the same tick in which the transaction is known to be open, so that nothing is written for a
 * caller that did not await txbox and has ended the transaction meanwhile. Concurrent calls are sent in their order.
 */
async function sendInTurn(
  adapter: HandleAdapter,
  handle: object,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const before = turns.get(handle)
  const state = before === undefined ? adapter.stateNow?.(handle) : undefined
  if (adapter.stateNow === undefined || state !== undefined) {
    if (state === 'none') throw endedMeanwhile()
    return adapter.query(handle, text, values)
  }
  const turn = (before ?? Promise.resolve()).then(async () => {
    // An empty query waits behind all statements in flight, and its answer has the state after them.
    while (adapter.stateNow?.(handle) === undefined) await adapter.query(handle, '', [])
    if (adapter.stateNow(handle) === 'none') throw endedMeanwhile()
    return { answer: adapter.query(handle, text, values) }
  })
  const sent = turn.catch(() => undefined)
  turns.set(handle, sent)
  try {
    const { answer } = await turn
    return await answer
  } finally {
    if (turns.get(handle) === sent) turns.delete(handle)
  }
}

function endedMeanwhile(): NotInTransactionError {
  return new NotInTransactionError(
    'The transaction has ended. Await every call of txbox before you commit or roll back. Nothing was written.',
  )
}

/** See `DatabasePorts.watch`. */
export async function watch<R>(session: Session, handler: () => Promise<R> | R): Promise<R> {
  const { adapter, handle, monitor } = session as PostgresSession
  const snapshot = (monitor ?? (await adapter.monitor(handle)))?.snapshot()
  const result = await handler()
  await assertOpen(session, snapshot)
  return result
}

/** A savepoint is refused outside a transaction block: 25P01, "no active sql transaction". */
async function isInTransaction(session: Session): Promise<boolean> {
  const { adapter, handle } = session as PostgresSession
  try {
    await adapter.query(handle, sessionStatements.setProbe, [])
    await adapter.query(handle, sessionStatements.releaseProbe, [])
    return true
  } catch (error) {
    if (propertyOf(error, 'code') === '25P01') return false
    throw translate(error, 'checking whether a transaction is open')
  }
}

async function assertOpen(session: Session, snapshot: Snapshot | undefined): Promise<void> {
  const { adapter, handle, holds } = session as PostgresSession
  let cause: unknown
  try {
    // A statement that is still in flight may end the transaction: ask for the state first, and read the snapshot then.
    const state = await adapter.state(handle)
    const { ended, doubtful, rolledBack } = snapshot ?? NO_MONITOR
    const certain = state === 'open' && !doubtful && !rolledBack && !ended
    const isLost = state === 'none' || state === 'aborted' || ended
    if (certain || (!isLost && (await (holds ?? (() => isInTransaction(session)))()))) return
  } catch (error) {
    cause = error
  }
  throw new TransactionAbortedError(
    'The handler returned although an error had aborted its transaction, a statement had ended the transaction, or the claim ' +
      'had been rolled back. Its effects do not commit together with the claim. Roll back. In the handler, let SQL errors ' +
      'leave the handler, do not commit, and roll back only to savepoints that the handler has set.',
    { cause },
  )
}

/** The snapshot of a connection that cannot be monitored: only the server knows the state. */
const NO_MONITOR = { ended: false, doubtful: true, rolledBack: false }
