/*
 * MySQL and MariaDB hide the state of a transaction, so savepoints are needed to find it out. PostgreSQL shows the
 * state, and whether a claim exists.
 */
import {
  NotInTransactionError,
  TransactionAbortedError,
  UnsupportedTransactionError,
  isTxboxError,
  type Session,
} from '@txbox/core'
import {
  swallowedText,
  type CheckedSnapshot,
  type ConnectionMonitor,
  type Resolved,
  type Resolver,
  type Snapshot,
  type SqlResult,
} from '@txbox/sql/transactions'
import { columns } from './columns.ts'
import { IN_PROGRESS, NOT_PREPARED, NO_SAVEPOINT, numberOf, translate } from './errors.ts'
import { fill, type Value } from './literals.ts'
import type { ServerTraits } from './server.ts'
import { withoutRowLimit } from './time-limit-statements.ts'
import { NOT_MARIADB, sessionStatements } from './session-statements.ts'

/** The content of the opaque {@link Session}. */
export interface MysqlSession extends Session, Resolved {
  readonly monitor: ConnectionMonitor | undefined
  /** Whether a transaction is known to be open. If not, the answer to the first write shows whether one is open. */
  open: boolean
  /** The tracker's `changes` when the transaction was found open, if there is a tracker. */
  changes?: number
  /** The tracker's `rollbacks` at the same time. */
  rollbacks?: number
  /** Set before the first statement of txbox. */
  server: ServerTraits
}

export async function bind(
  resolver: Resolver,
  handle: unknown,
  server: ServerTraits | undefined,
): Promise<MysqlSession> {
  if (opened.has(handle as object)) return handle as MysqlSession
  const resolved = resolver.transaction(handle)
  const found = resolved instanceof Promise ? await resolved : resolved
  const { driver, connection, name, isOpen, settled } = found
  const monitor = await driver.monitor(connection)
  const state = await driver.state(connection, monitor)
  if (state === 'none') {
    throw new NotInTransactionError(
      `Expected an open transaction, but this ${name} handle has none. Pass the transaction, or the ` +
        'connection after beginTransaction(), and not the pool or root. Nothing was written.',
    )
  }
  const open = state === 'open'
  const session = { driver, connection, name, isOpen, settled, monitor, open, server } as MysqlSession
  const tracker = monitor?.tracker
  if (tracker === undefined) {
    // The answer to the first write shows whether a transaction is open, unless the driver hides that as well.
    if (!session.open && driver.reportsTransaction !== true) session.open = await isInTransaction(session)
    if (!session.open && driver.reportsTransaction !== true) throw notOpen()
    return session
  }
  const { changes } = tracker
  if (!tracker.open && !(await isInTransaction(session))) {
    if (state === 'unknown') throw notOpen()
    throw new TransactionAbortedError(
      `The ${name} transaction has ended unexpectedly: an error (such as a deadlock, 1213) rolled it back, ` +
        'or a statement (such as DDL) committed it. Nothing was written.',
    )
  }
  // While the server was asked, a caller that does not await txbox may have ended the transaction.
  if (tracker.changes !== changes) throw notOpen()
  tracker.open = true
  tracker.ended = false
  session.changes = changes
  session.rollbacks = tracker.rollbacks
  session.open = true
  return session
}

/** The sessions of transactions that txbox itself opened. */
const opened = new WeakSet<object>()

export async function openedSession(resolver: Resolver, handle: unknown): Promise<MysqlSession> {
  const resolved = await resolver.transaction(handle)
  const monitor = await resolved.driver.monitor(resolved.connection)
  const session = { ...resolved, monitor, open: true } as MysqlSession
  opened.add(session)
  return session
}

const SELECTS = /^\s*select\b/
/** Matches statements that write, with or without the prefix by which MariaDB limits a single statement. */
const WRITES = /^\s*(?:set statement \w+ = \d+ for\s+)?(?:insert|update)\b/

export async function execute(
  session: Session,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { driver, connection, isOpen, monitor, changes } = session as MysqlSession
  // Checked in the same tick in which the statement is sent: a caller that does not await txbox may have ended the
  // transaction, and another one may have begun on the connection.
  const isOther = changes !== undefined && monitor?.tracker?.changes !== changes
  if (!isOpen() || isOther || driver.stateNow?.(connection) === 'none') throw notOpen()
  const running = executeAnywhere(session, doing, text, values)
  if (driver.hidesState !== true || !WRITES.test(text)) return await running
  // A caller that does not await txbox may have ended the transaction without txbox noticing.
  if (!isSentAtOnce(session as MysqlSession)) {
    return { ...(await running), inTransaction: await isInTransaction(session) }
  }
  const [result, inTransaction] = await Promise.all([running, isInTransaction(session)])
  return { ...result, inTransaction }
}

/** Returns whether the driver sends a statement at once, even if earlier statements have not been answered yet. */
function isSentAtOnce({ monitor }: MysqlSession): boolean {
  return monitor?.sendTogether !== undefined
}

/**
 * Like `execute`, but also works after the transaction has ended: for statements that delete rows that were written
 * outside of it.
 */
export async function executeAnywhere(
  session: Session,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { driver, connection, server } = session as MysqlSession
  const filled = fill(text, values)
  // A limit on the rows of a SELECT would hide claims and messages of a batch.
  const statement =
    SELECTS.test(text) && server !== undefined ? withoutRowLimit(filled, server.engine) : filled
  try {
    return await driver.query(connection, statement, [])
  } catch (error) {
    throw translate(error, doing)
  }
}

/**
 * See `DatabasePorts.watch`, and for claims `HandlerGuard`.
 *
 * @param mark the mark that was sent together with the claim. By default the transaction is marked now.
 */
export async function watch<R>(
  session: Session,
  handler: () => Promise<R> | R,
  mark?: CheckedSnapshot,
): Promise<R> {
  const { monitor, rollbacks } = session as MysqlSession
  const snapshot = mark ?? monitor?.checkedSnapshot?.()
  try {
    if (snapshot?.marked !== undefined) await snapshot.marked.catch(cannotMark)
    // Another call may have failed meanwhile, and its caller may have rolled back: the handler would have an effect without
    // its claim. After a COMMIT the claim is stored, and the handler must run.
    if (rollbacks !== undefined && monitor?.tracker?.rollbacks !== rollbacks) throw notOpen()
    const result = await handler()
    const { driver, isOpen, settled } = session as MysqlSession
    if (settled !== undefined) await settled()
    // This question is sent together with the one in the next line.
    const intact =
      driver.hidesState === true && isSentAtOnce(session as MysqlSession) ? snapshot?.isIntact() : undefined
    if (snapshot === undefined || snapshot.doubtful || !isOpen()) await assertOpen(session, snapshot)
    // The claim was written in another transaction than the one that is open now.
    if (snapshot?.replaced === true) throw ended(monitor, snapshot)
    const isKept = snapshot === undefined || (intact ?? snapshot.isIntact())
    if (isKept !== true && !(await isKept)) throw ended(monitor, snapshot)
    return result
  } finally {
    snapshot?.end()
  }
}

/**
 * Marks the transaction for the handler of a claim that is sent in this tick, so that the mark takes no round trip of its
 * own. Returns `undefined` if the driver needs no mark, or does not send at once.
 */
export function markWithClaim(session: Session): CheckedSnapshot | undefined {
  const { driver, monitor } = session as MysqlSession
  return driver.hidesState === true && isSentAtOnce(session as MysqlSession)
    ? monitor?.checkedSnapshot?.()
    : undefined
}

function cannotMark(error: unknown): never {
  const cause = translate(error, 'setting a savepoint')
  if (numberOf(error) !== NOT_PREPARED) throw cause
  throw new UnsupportedTransactionError(
    'The statements of txbox were sent as prepared statements, among which MySQL knows no savepoints. Send them as text in ' +
      "'query' of sqlTransaction (with mysql2: query, not execute), and roll back.",
    { cause },
  )
}

/**
 * Returns whether a transaction is open. Asks the server, unless the transaction is known to have ended. Writes
 * nothing, and changes no status that the caller could read afterwards.
 */
export async function isInTransaction(session: Session): Promise<boolean> {
  const { driver, connection, monitor, isOpen } = session as MysqlSession
  try {
    if (!isOpen()) return false
    const rolledBack = monitor?.tracker?.rolledBack
    if (
      rolledBack === 'yes' ||
      (rolledBack === 'perhaps' && (await rollsBackOnTimeout(session as MysqlSession)))
    )
      return false
    if (driver.reportsTransaction === true)
      return (await driver.query(connection, sessionStatements.status, [])).inTransaction === true
    if ((session as Partial<MysqlSession>).server?.engine !== 'mysql') {
      const { rows } = await driver.query(connection, sessionStatements.mariadbState, [])
      const answer = columns.text(rows[0], 'answer')
      if (answer !== NOT_MARIADB) return answer === '1'
    }
    if (driver.hidesState === true && monitor?.sendTogether === undefined) {
      await driver.query(connection, sessionStatements.refusedInTransaction, [])
      return false
    }
    // Outside of a transaction, a savepoint disappears at once. No other statement may be sent between the two: the
    // release of an earlier savepoint would also release this one.
    const probe = [sessionStatements.setProbe, sessionStatements.releaseProbe]
    if (monitor?.sendTogether !== undefined) await monitor.sendTogether(probe)
    else for (const statement of probe) await driver.query(connection, statement, [])
    return true
  } catch (error) {
    if (numberOf(error) === NO_SAVEPOINT) return false
    if (numberOf(error) === IN_PROGRESS) return true
    throw translate(error, 'asking whether a transaction is open')
  }
}

async function rollsBackOnTimeout({ driver, connection }: Resolved): Promise<boolean> {
  const { rows } = await driver.query(connection, sessionStatements.rollsBackOnTimeout, [])
  return columns.flag(rows[0], 'answer')
}

/**
 * Checks that a transaction is open, for statements that must not run outside of one. Asks the server if the state is
 * unknown.
 */
export async function assertInTransaction(session: Session): Promise<void> {
  if ((session as MysqlSession).open || (await isInTransaction(session))) return
  throw notOpen()
}

function notOpen(): NotInTransactionError {
  return new NotInTransactionError(
    'Expected an open transaction, but this connection is in none: call beginTransaction() first, and do not commit or ' +
      'roll back before everything has been awaited. (A deadlock, 1213, ends a transaction too, and so does DDL.) Nothing ' +
      'was written.',
  )
}

/** Checks the transaction after a handler has returned. */
export async function assertOpen(session: Session, snapshot?: Snapshot): Promise<void> {
  let cause: unknown
  try {
    await (session as MysqlSession).settled?.()
    if (await isInTransaction(session)) return
  } catch (error) {
    cause = translate(error, 'checking the transaction after the handler')
    // A conflict or an outage of the check itself says nothing about what the handler has done.
    if (isTxboxError(cause) && cause.retryable) throw cause
  }
  throw ended((session as MysqlSession).monitor, snapshot, cause)
}

function ended(
  monitor: ConnectionMonitor | undefined,
  snapshot: Snapshot | undefined,
  cause?: unknown,
): TransactionAbortedError {
  const swallowed = monitor?.abortedBy
  return new TransactionAbortedError(
    'The handler returned although its transaction had ended, or the claim had been rolled back: an error rolled the ' +
      'transaction back (a deadlock, 1213), a statement committed it (DDL, BEGIN), or something ended it or rolled back to a ' +
      'savepoint from before the claim. Its effects do not commit together with the claim; what it wrote outside the ' +
      'transaction is committed already. Roll back; let errors of statements leave the handler, do not commit in it, and ' +
      `roll back to savepoints of its own only.${swallowedText(swallowed)}`,
    { cause: swallowed ?? cause, mayHaveCommitted: snapshot?.mayHaveCommitted ?? swallowed === undefined },
  )
}
