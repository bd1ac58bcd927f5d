/*
 * On MySQL, the limit on waits for row locks is a session setting that must be restored; MariaDB limits a single
 * statement (`lock-wait-statements.ts`). PostgreSQL has no such file: a rollback restores its `lock_timeout`.
 */
import type { Session } from '@txbox/core'
import type { ClaimOptions } from '@txbox/core/ports'
import { CLAIMING } from '@txbox/sql/stores'
import { inTurnOfConnection, type SqlResult } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { hasNumber, LOCK_NOT_AVAILABLE, LOCK_WAIT_TIMEOUT } from '../connection/errors.ts'
import type { Value } from '../connection/literals.ts'
import { lockWaitStatements } from './lock-wait-statements.ts'
import { execute, executeAnywhere, isInTransaction, type MysqlSession } from '../connection/session.ts'

type Send = (text: string, values: readonly Value[]) => Promise<SqlResult>

/** How long a statement waits for row locks. If `seconds` is absent, the session's own limit applies. */
interface LockWait {
  readonly seconds: number | undefined
  /** Whether an open claim of another transaction is reported instead of waited for. */
  readonly isReported: boolean
}

/**
 * Returns the limit on waits for locks, in seconds. With `report`, a claim should not wait at all. MySQL has no such
 * setting, and waits for one second.
 */
export function lockWaitOf(session: Session, { inFlight, lockTimeoutMs }: ClaimOptions): LockWait {
  if (inFlight === 'report') {
    const seconds = (session as MysqlSession).server.engine === 'mariadb' ? 0 : 1
    return { seconds, isReported: true }
  }
  return { seconds: lockTimeoutMs && Math.ceil(lockTimeoutMs / 1000), isReported: false }
}

/**
 * The way to send the statements of a claim. `canProbe` is true if a read with NOWAIT can find out at once whether an
 * INSERT would wait.
 */
export interface BoundStatements {
  readonly send: Send
  readonly canProbe: boolean
}

/**
 * Runs the statements of a claim. Each statement waits for a row lock no longer than `wait` allows. The session setting
 * is restored afterwards.
 */
export function boundLockWait<R>(
  session: Session,
  { seconds, isReported }: LockWait,
  work: (statements: BoundStatements) => Promise<R>,
): Promise<R> {
  const send: Send = (text, values) => execute(session, CLAIMING, text, values)
  return seconds === undefined
    ? work({ send, canProbe: false })
    : within(session, seconds, isReported, { send, work })
}

async function within<R>(
  session: Session,
  seconds: number,
  isReported: boolean,
  { send, work }: { readonly send: Send; readonly work: (statements: BoundStatements) => Promise<R> },
): Promise<R> {
  if ((session as MysqlSession).server.engine === 'mariadb') {
    return work({
      send: (text, values) => send(lockWaitStatements.within(text, seconds), values),
      canProbe: false,
    })
  }
  return inTurnOfConnection(session as MysqlSession, async () => {
    const { rows } = await send(lockWaitStatements.read, [])
    const before = columns.number(rows[0], 'seconds')
    // At a higher isolation level, a locking read of a key that does not exist would lock the gap.
    const canProbe = isReported && columns.text(rows[0], 'isolation') === 'READ-COMMITTED'
    if (before !== seconds) await send(lockWaitStatements.set, [seconds])
    let result: R
    try {
      result = await work({ send, canProbe })
    } catch (error) {
      // If restoring fails as well, the connection is broken, and the first error already reports that.
      await restore(session, before, seconds).catch(() => undefined)
      throw error
    }
    await restore(session, before, seconds)
    return result
  })
}

async function restore(session: Session, before: number, seconds: number): Promise<void> {
  if (before !== seconds) await executeAnywhere(session, CLAIMING, lockWaitStatements.set, [before])
}

/**
 * Returns whether another transaction has locked the row, and this transaction can continue. With
 * `innodb_rollback_on_timeout`, the server has rolled this transaction back.
 */
export async function isHeldByAnother(session: Session, error: unknown): Promise<boolean> {
  if (hasNumber(error, LOCK_NOT_AVAILABLE)) return true
  return hasNumber(error, LOCK_WAIT_TIMEOUT) && (await isInTransaction(session))
}
