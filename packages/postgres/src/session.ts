/*
 * PostgreSQL shows the state of a transaction, and whether a claim is there; MySQL and MariaDB hide it, so that
 * savepoints must tell.
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
  /** Absent until the handle has been asked. */
  monitor?: ConnectionMonitor | undefined
  /** BEGIN has not been sent. */
  opening: Opening | undefined
  /**
   * Asks whether the rows that the session wrote are still there, and not yet committed. Absent if there is nothing to
   * ask about.
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
    throw translate(error, 'finding out whether a transaction is open')
  }
  if (state === 'none' || (state === 'unknown' && !(await isInTransaction(session)))) {
    throw new NotInTransactionError(
      `Expected an open transaction, but this ${adapter.library} handle is in none. Pass the transaction, or the client ` +
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

/** A session on a transaction that has been recognized, or that txbox has opened. */
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

/** Sends BEGIN where that has been left to the first statement. */
export async function open(session: Session): Promise<void> {
  const { opening } = session as PostgresSession
  if (opening === undefined) return
  ;(session as PostgresSession).opening = undefined
  await opening.alone()
}

/**
 * As `execute`, for a statement that returns no rows and may be the transaction's first.
 *
 * @returns the number of rows that it wrote.
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
    `This ${adapter.library} transaction does not tell how many rows a statement has written (numAffectedRows), so a first ` +
      'delivery cannot be told from a duplicate. Roll back, and use a dialect that does.',
  )
}

/** The last call on each handle that found statements in flight and waits for its turn to be sent. */
const turns = new WeakMap<object, Promise<unknown>>()

/**
 * Sends a statement in the same tick in which the transaction is known to be open: nothing is written for a caller that did
 * not await txbox and has ended the transaction meanwhile. Calls that do not wait for one another are sent in their order.
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
    // An empty query waits behind all statements in flight, and brings the state that they leave.
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
    'The transaction has ended meanwhile. Await every call of txbox before you commit or roll back. Nothing was written.',
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
    throw translate(error, 'asking whether a transaction is open')
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
    'The handler returned although an error had aborted its transaction, something had ended the transaction, or the claim ' +
      'had been rolled back. Its effects do not commit together with the claim. Roll back; let errors of statements leave the ' +
      'handler, do not commit in it, and roll back to savepoints of its own only.',
    { cause },
  )
}

/** Stands for the snapshot of a connection that cannot be watched: only the server knows. */
const NO_MONITOR = { ended: false, doubtful: true, rolledBack: false }
