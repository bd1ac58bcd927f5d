import { DatabaseUnavailableError, isTxboxError, type Loss } from '@txbox/core'
import { isCausedBy, isFullDisk, propertyOf, readOnlyPart, unanswered, within } from '@txbox/core/internal'
import type { DatabaseErrors } from '../errors/database-errors.ts'
import type { Resolved } from './adapters.ts'
import type { RootAdapter } from './root-adapter.ts'
import { connectionStatements } from './connection-statements.ts'

/** How long a connection may take to give a sign of life. */
const ANSWER_MS = 2000

/** The errors of transactions whose connections have ended. */
const lost = new WeakSet<object>()

/** Records that the connection of a transaction has ended, as far as this error shows it by itself. */
export function recordLoss(error: unknown): void {
  if (mayShowLoss(error, (one) => one) && error instanceof Object) lost.add(error)
}

/**
 * Records an error of the work of a transaction, if the connection of the transaction has ended. The error may come from another
 * system that the work has called, so the connection itself is asked.
 */
export async function recordLossOf(
  error: unknown,
  { translate }: DatabaseErrors,
  { driver, connection }: Resolved,
): Promise<void> {
  const translated = (one: unknown): unknown => translate(one, 'running a statement')
  if (!mayShowLoss(error, translated) || !(error instanceof Object)) return
  try {
    await within(driver.query(connection, connectionStatements.check, []), ANSWER_MS, unanswered)
  } catch (failure) {
    const reason = translated(failure)
    // A library that hides its connection may have sent the statement to another one.
    const isElsewhere = propertyOf(reason, 'code') === 'TXBOX_NOT_IN_TRANSACTION'
    if (isElsewhere || mayShowLoss(failure, translated)) lost.add(error)
  }
}

/** Records that one error replaces another error of the same transaction. */
export function inheritLoss(from: unknown, to: unknown): void {
  if (from instanceof Object && to instanceof Object && lost.has(from)) lost.add(to)
}

/** Returns the method `lossOf` of a database. */
export function lossOn<R>(root: RootAdapter<R>, db: R): (error: unknown) => Promise<Loss> {
  return async (error) => {
    if (!(error instanceof Object) || !lost.has(error)) return 'nothing'
    // An idle transaction that the server has ended was too slow: waiting does not help.
    if (isCausedBy(error, isAborted)) return 'nothing'
    return (await answers(root, db)) ? 'connection' : 'server'
  }
}

function isAborted(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_TRANSACTION_ABORTED'
}

/** A server with a full disk, and a server that is read-only, have not lost the connection. */
function mayShowLoss(error: unknown, translated: (error: unknown) => unknown): boolean {
  if (isFullDisk(error) || readOnlyPart(error) !== undefined) return false
  return translated(error) instanceof DatabaseUnavailableError
}

/** Asks the server on a connection of its own if the library can open one, because a pool may have no connection left. */
async function answers<R>(root: RootAdapter<R>, db: R): Promise<boolean> {
  const ask = async (): Promise<void> => {
    if (root.connectApart === undefined) {
      await root.query(db, connectionStatements.check, [], ANSWER_MS)
      return
    }
    const connection = await root.connectApart(db, ANSWER_MS)
    try {
      await connection.query(connectionStatements.check, [])
    } finally {
      connection.release(false)
    }
  }
  return within(ask(), ANSWER_MS * 2, unanswered).then(
    () => true,
    () => false,
  )
}
