import {
  DatabaseUnavailableError,
  NotInTransactionError,
  TransactionAbortedError,
  UnsupportedTransactionError,
} from '@txbox/core'
import { oneLine, propertyOf, reasonOf } from '@txbox/core/internal'
import type { Engine } from '../adapters.ts'

/** Prisma's transaction API failed: there was no connection in time, or the transaction has ended or taken too long. */
const TRANSACTION_API = 'P2028'

/** MySQL: the statement cannot be prepared. */
const NOT_PREPARED = 1295

/** Translates an error of `$transaction`. */
export function transactionError(error: unknown): unknown {
  if (propertyOf(error, 'code') !== TRANSACTION_API) return error
  const reason = oneLine(reasonOf(error))
  return reason.includes('Unable to start a transaction')
    ? new DatabaseUnavailableError(`Prisma has no connection for a transaction (${reason}).`, {
        cause: error,
      })
    : new TransactionAbortedError(
        `Prisma has ended the transaction (${reason}). Nothing was written. Make the handler faster, or raise ` +
          "'timeout' in the option 'transactionOptions' of the PrismaClient.",
        { cause: error },
      )
}

/**
 * Returns the error of a statement in the form in which the driver would have thrown it: Prisma keeps the server's code
 * in the details of its error.
 */
export function driverError(error: unknown, engine: Engine): unknown {
  if (propertyOf(error, 'code') === TRANSACTION_API) {
    return new NotInTransactionError(
      `The Prisma transaction has ended (${oneLine(reasonOf(error))}). Await everything that uses it before it ends, and ` +
        "raise 'timeout' of $transaction if it takes longer. Nothing was written.",
      { cause: error },
    )
  }
  const details = propertyOf(propertyOf(propertyOf(error, 'meta'), 'driverAdapterError'), 'cause')
  const code = propertyOf(details, 'originalCode')
  if (typeof code !== 'string') return error
  const message = propertyOf(details, 'originalMessage')
  const original = new Error(typeof message === 'string' ? message : reasonOf(error), { cause: error })
  if (engine === 'postgres') return Object.assign(original, { code })
  const errno = Number(code)
  return errno === NOT_PREPARED ? cannotPrepare(error) : Object.assign(original, { errno })
}

function cannotPrepare(cause: unknown): UnsupportedTransactionError {
  return new UnsupportedTransactionError(
    'Prisma sends prepared statements, among which MySQL knows no savepoints. Create the adapter with new ' +
      'PrismaMariaDb(…, { useTextProtocol: true }), and roll back.',
    { cause },
  )
}

/** What to pass instead of a transaction of another Prisma. */
const INSTEAD: Readonly<Record<Engine, string>> = {
  postgres: '@prisma/adapter-pg. Use these versions, or a client of pg.',
  mysql: '@prisma/adapter-mariadb. Use these versions, or a connection of mysql2 or mariadb.',
}

/** Returns the error for a transaction of a Prisma that lacks what txbox needs to tell transactions apart. */
export function otherPrisma(engine: Engine): UnsupportedTransactionError {
  return new UnsupportedTransactionError(
    `This Prisma transaction lacks what tells it from others. txbox is tested with Prisma 7.10 and ${INSTEAD[engine]} ` +
      'Nothing was written.',
  )
}

/**
 * Returns the error for a statement that Prisma repeatedly did not run, because other statements that were sent with it
 * failed.
 */
export function notRun(): UnsupportedTransactionError {
  return new UnsupportedTransactionError(
    'Prisma has not run a statement of txbox, because it had bundled the statement with others, of which one failed. ' +
      'Await the statements of a transaction one after the other, and roll back.',
  )
}
