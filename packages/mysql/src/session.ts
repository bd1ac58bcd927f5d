import { NotInTransactionError, TransactionAbortedError, type Session } from '@txbox/core'
import { recogniseHandle, type HandleAdapter, type Seen, type SqlResult } from '@txbox/sql'
import { NO_SAVEPOINT, numberOf, translate } from './errors.ts'
import { fill, textOf, type Value } from './literals.ts'
import type { ServerTraits } from './server.ts'

/** What hides behind the opaque {@link Session}. */
export interface MysqlSession extends Session {
  readonly adapter: HandleAdapter
  readonly handle: unknown
  readonly seen: Seen | undefined
  /** A transaction is known to be open; otherwise the answer to the first write tells. */
  open: boolean
  /** Set before the first statement of ours. */
  server: ServerTraits
}

/** 0 or 1 on MariaDB, where a savepoint may outlive a rollback by deadlock; MySQL takes it for a comment. */
const NOT_MARIADB = '2'
const MARIADB_IN_TRANSACTION = `select cast(${NOT_MARIADB} /*M! * 0 + @@in_transaction */ as char) as answer`

/** See `DatabasePorts.bind`. */
export async function bind(handle: unknown): Promise<MysqlSession> {
  const adapter = recogniseHandle(handle, 'mysql2')
  const seen = await adapter.seen(handle)
  const state = await adapter.state(handle, seen)
  if (state === 'none') {
    throw new NotInTransactionError(
      `Expected an open transaction, but this ${adapter.library} handle is in none. Pass the transaction, or the ` +
        'connection after beginTransaction(), and not the pool or root. Nothing was written.',
    )
  }
  const session = { adapter, handle, seen, open: state === 'open' } as MysqlSession
  const track = seen?.track
  if (track === undefined) return session
  if (!track.open && !(await isInTransaction(session))) {
    if (state === 'unknown') throw notOpen()
    throw new TransactionAbortedError(
      `The ${adapter.library} transaction has ended although nobody ended it: an error (a deadlock, 1213) rolled it back, ` +
        'or a statement (DDL) committed it. Nothing was written.',
    )
  }
  track.open = true
  track.ended = false
  session.open = true
  return session
}

/** A session on a transaction that we have opened ourselves. */
export async function sessionOf(handle: unknown): Promise<MysqlSession> {
  const adapter = recogniseHandle(handle, 'mysql2')
  return { adapter, handle, seen: await adapter.seen(handle), open: true } as MysqlSession
}

/** Runs one of our statements in the caller's transaction. */
export async function execute(
  session: Session,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { adapter, handle } = session as MysqlSession
  // In the same tick in which the statement is sent: a caller who does not await txbox may have ended the transaction.
  if (adapter.stateNow?.(handle) === 'none') throw notOpen()
  return executeAnywhere(session, doing, text, values)
}

/** The same, also when the transaction has ended: takes back what was written outside of it. */
export async function executeAnywhere(
  session: Session,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { adapter, handle } = session as MysqlSession
  try {
    return await adapter.query(handle, fill(text, values), [])
  } catch (error) {
    throw translate(error, doing)
  }
}

/** See `DatabasePorts.watch`. */
export async function watch<R>(session: Session, handler: () => Promise<R> | R): Promise<R> {
  const guard = (session as MysqlSession).seen?.guard?.()
  try {
    const result = await handler()
    if (guard === undefined || guard.doubtful) await assertOpen(session)
    // Whatever is open now, it is not what the claim was written in.
    if (guard?.replaced === true || guard?.ended === true) throw ended()
    if (guard !== undefined && !(await guard.isIntact())) throw ended()
    return result
  } finally {
    guard?.end()
  }
}

/**
 * Asks the server, unless the transaction is known to be gone. Nothing is written, and what the caller asks for next is the
 * same as before.
 */
export async function isInTransaction(session: Session): Promise<boolean> {
  const { adapter, handle, seen } = session as MysqlSession
  try {
    const rolledBack = seen?.track?.rolledBack
    if (rolledBack === 'yes' || (rolledBack === 'perhaps' && (await rollsBackOnTimeout(adapter, handle))))
      return false
    if (adapter.tellsTransaction === true)
      return (await adapter.query(handle, 'DO 0', [])).inTransaction === true
    if ((session as Partial<MysqlSession>).server?.engine !== 'mysql') {
      const { rows } = await adapter.query(handle, MARIADB_IN_TRANSACTION, [])
      const answer = textOf(rows[0]?.['answer'])
      if (answer !== NOT_MARIADB) return answer === '1'
    }
    // Outside a transaction a savepoint is gone at once. Between the two nothing else is sent: the release of an earlier
    // savepoint would take this one with it.
    const probe = ['SAVEPOINT txbox_probe', 'RELEASE SAVEPOINT txbox_probe']
    if (seen?.sendTogether !== undefined) await seen.sendTogether(probe)
    else for (const statement of probe) await adapter.query(handle, statement, [])
    return true
  } catch (error) {
    if (numberOf(error) === NO_SAVEPOINT) return false
    throw translate(error, 'asking whether a transaction is open')
  }
}

async function rollsBackOnTimeout(adapter: HandleAdapter, handle: unknown): Promise<boolean> {
  const text = 'select cast(@@innodb_rollback_on_timeout + 0 as char) as answer'
  const { rows } = await adapter.query(handle, text, [])
  return textOf(rows[0]?.['answer']) === '1'
}

/** For statements that must not run outside a transaction: asks, where it is not known. */
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

/** The transaction of a handler that has returned. */
export async function assertOpen(session: Session): Promise<void> {
  let cause: unknown
  try {
    if (await isInTransaction(session)) return
  } catch (error) {
    cause = error
  }
  throw ended(cause)
}

function ended(cause?: unknown): TransactionAbortedError {
  return new TransactionAbortedError(
    'The handler returned although its transaction had ended, or the claim had been rolled back: an error rolled the ' +
      'transaction back (a deadlock, 1213), a statement committed it (DDL, BEGIN), or something ended it or rolled back to a ' +
      'savepoint from before the claim. Its effects do not commit together with the claim; what it wrote outside the ' +
      'transaction is committed already. Roll back; let errors of statements leave the handler, do not commit in it, and ' +
      'roll back to savepoints of its own only.',
    { cause },
  )
}
