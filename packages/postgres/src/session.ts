/*
 * PostgreSQL shows the state of a transaction, and whether a claim exists. MySQL and MariaDB hide both, so savepoints
 * are needed to find out.
 */
import {
  NotInTransactionError,
  TransactionAbortedError,
  UnsupportedTransactionError,
  type Session,
} from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import {
  connectionIdentity,
  type ConnectionMonitor,
  type Opening,
  type Resolved,
  type Resolver,
  type Snapshot,
  type SqlResult,
  type TransactionState,
} from '@txbox/sql'
import { translate } from './errors.ts'
import { sessionStatements } from './session-statements.ts'

/** The content of the opaque {@link Session}. */
export interface PostgresSession extends Session, Resolved {
  /** Absent until the state of the handle has been checked. */
  monitor: ConnectionMonitor | undefined
  /** Present as long as BEGIN has not been sent. */
  opening: Opening | undefined
  /**
   * Checks whether the rows that the session wrote still exist and are not committed. Absent if the session wrote no
   * rows.
   */
  holds: (() => Promise<boolean>) | undefined
}

/** See `DatabasePorts.bind`. */
export async function bind(resolver: Resolver, handle: unknown): Promise<PostgresSession> {
  if (opened.has(handle as object)) return handle as PostgresSession
  const session = await sessionOf(resolver, handle, undefined)
  const { driver, connection, name } = session
  let state: TransactionState
  try {
    session.monitor = await driver.monitor(connection)
    state = await driver.state(connection, session.monitor)
  } catch (error) {
    throw translate(error, 'checking whether a transaction is open')
  }
  if (state === 'none' || (state === 'unknown' && !(await isInTransaction(session)))) {
    throw new NotInTransactionError(
      `Expected an open transaction, but this ${name} handle has none. Pass the transaction, or the client ` +
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

/** The sessions of transactions that txbox itself opened. */
const opened = new WeakSet<object>()

/** Creates a session for a transaction that txbox itself opened. BEGIN may not have been sent yet. */
export async function openedSession(
  resolver: Resolver,
  handle: unknown,
  opening: Opening | undefined,
): Promise<PostgresSession> {
  const session = await sessionOf(resolver, handle, opening)
  opened.add(session)
  return session
}

async function sessionOf(
  resolver: Resolver,
  handle: unknown,
  opening: Opening | undefined,
): Promise<PostgresSession> {
  // Listed instead of copied and extended, which takes several times as long.
  const { driver, connection, name, isOpen, settled } = await resolver.transaction(handle)
  return { driver, connection, name, isOpen, settled, opening, monitor: undefined, holds: undefined } as never
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
  const own = session as PostgresSession
  const { opening } = own
  let affected: number
  try {
    if (opening === undefined) {
      ;({ affected } = await sendInTurn(own, text, values))
    } else {
      own.opening = undefined
      affected = await opening.with(text, values)
    }
  } catch (error) {
    throw translate(error, doing)
  }
  if (!Number.isNaN(affected)) return affected
  throw new UnsupportedTransactionError(
    `This ${own.name} transaction does not report how many rows a statement has written (numAffectedRows), so txbox ` +
      'cannot distinguish a first delivery from a duplicate. Roll back, and use a dialect that reports this number.',
  )
}

/** For each connection, the last call that found other statements in flight and waits for its turn. */
const turns = new WeakMap<object, Promise<unknown>>()

/**
 * Sends a statement in the same tick in which the state shows that the transaction is open. If the caller did not await
 * txbox and has ended the transaction, nothing is written. Concurrent calls are sent in the order in which they were
 * made.
 */
function sendInTurn(session: PostgresSession, text: string, values: readonly unknown[]): Promise<SqlResult> {
  const before = turns.get(connectionIdentity(session))
  const state = before === undefined ? stateNow(session) : undefined
  if (state === undefined) return sendLater(session, before, text, values)
  if (state === 'none') throw endedMeanwhile()
  return session.driver.query(session.connection, text, values)
}

/** Sends a statement when the statements in flight have been answered. */
async function sendLater(
  session: PostgresSession,
  before: Promise<unknown> | undefined,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  const { driver, connection } = session
  const identity = connectionIdentity(session)
  const turn = (before ?? Promise.resolve()).then(async () => {
    // An empty query waits for all statements in flight, and its answer contains the state after them.
    while (stateNow(session) === undefined) await driver.query(connection, '', [])
    if (stateNow(session) === 'none') throw endedMeanwhile()
    return { answer: driver.query(connection, text, values) }
  })
  const sent = turn.catch(() => undefined)
  turns.set(identity, sent)
  try {
    const { answer } = await turn
    return await answer
  } finally {
    if (turns.get(identity) === sent) turns.delete(identity)
  }
}

/** `undefined` while statements are in flight. */
function stateNow({ driver, connection, isOpen }: PostgresSession): TransactionState | undefined {
  if (!isOpen()) return 'none'
  return driver.stateNow === undefined ? 'open' : driver.stateNow(connection)
}

function endedMeanwhile(): NotInTransactionError {
  return new NotInTransactionError(
    'The transaction has ended. Await every call of txbox before you commit or roll back. Nothing was written.',
  )
}

/** See `DatabasePorts.watch`. */
export async function watch<R>(session: Session, handler: () => Promise<R> | R): Promise<R> {
  const { driver, connection, monitor, opening, settled } = session as PostgresSession
  if (opening !== undefined) await open(session)
  const snapshot = (monitor ?? (await driver.monitor(connection)))?.snapshot()
  const result = await handler()
  if (settled !== undefined) await settled()
  await assertOpen(session, snapshot)
  return result
}

/** The server refuses a savepoint outside of a transaction block: 25P01, "no active sql transaction". */
async function isInTransaction(session: Session): Promise<boolean> {
  const { driver, connection } = session as PostgresSession
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
export async function assertOpen(session: Session, snapshot: Snapshot | undefined): Promise<void> {
  const { driver, connection, holds, isOpen } = session as PostgresSession
  let cause: unknown
  try {
    // A statement that is still in flight may end the transaction. Therefore ask for the state first, and read the
    // snapshot after the answer.
    const state = isOpen() ? await driver.state(connection) : 'none'
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

/** The snapshot of a connection that cannot be monitored: only the server knows its state. */
const NO_MONITOR = { ended: false, doubtful: true, rolledBack: false }
