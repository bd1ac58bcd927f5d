import {
  DatabaseUnavailableError,
  NotInTransactionError,
  TransactionAbortedError,
  type IsolationLevel,
  type TransactionLibrary,
} from '@txbox/core'
import { oneLine, propertyOf, reasonOf } from '@txbox/core/internal'
import type { DriverAdapter, SqlResult } from '../adapters.ts'
import { plainValues } from '../array-text.ts'
import { hasFunction } from '../members.ts'

/** The part of an interactive transaction of Prisma that txbox uses. A client has the same methods, and `$connect`. */
interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: readonly unknown[]): Promise<unknown>
  $executeRawUnsafe(text: string, ...values: readonly unknown[]): Promise<number>
}
interface PrismaClient extends PrismaTransaction {
  $transaction<T>(
    work: (tx: PrismaTransaction) => Promise<T>,
    options: {
      readonly isolationLevel?: string
      readonly timeout: number
      readonly maxWait: number
    },
  ): Promise<T>
}

/** Prisma runs a statement either for its rows or for their number. The text, which holds no values, says which. */
const RETURNS_ROWS = /^\s*(?:select|with)\b|\breturning\b/i

/**
 * An interactive transaction of Prisma 7 on adapter-pg. Prisma hides the connection, so that nothing can be monitored.
 * Prisma itself refuses statements in a transaction that has ended.
 */
export const prismaHandle: DriverAdapter<PrismaTransaction> = {
  name: 'Prisma',
  recognises: (handle): handle is PrismaTransaction => isPrisma(handle),
  // PostgreSQL refuses statements in an aborted transaction.
  state: () => 'open',
  monitor: () => undefined,
  async query(tx, text, values) {
    const plain = plainValues(values)
    try {
      if (RETURNS_ROWS.test(text)) {
        return { rows: withBuffers(await tx.$queryRawUnsafe(text, ...plain)), affected: Number.NaN }
      }
      return { rows: [], affected: await tx.$executeRawUnsafe(text, ...plain) }
    } catch (error) {
      throw driverError(error)
    }
  },
}

/** A `PrismaClient`, for `inbox.run` and `transact`. It lends no connection. */
export const prisma: TransactionLibrary<PrismaTransaction, PrismaClient> = {
  name: 'Prisma',
  // A client that was passed instead of a transaction. A transaction belongs to the driver above.
  recognises: (handle): handle is PrismaTransaction => isClient(handle),
  connectionOf: () => undefined,
  root: {
    recognises: (root): root is PrismaClient => isClient(root),
    async transact(client, work, isolation) {
      try {
        return await client.$transaction(work, {
          ...(isolation !== undefined && { isolationLevel: LEVELS[isolation] }),
          ...limitsOf(client),
        })
      } catch (error) {
        throw transactionError(error)
      }
    },
  },
}

const LEVELS: Readonly<Record<IsolationLevel, string>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
}

/**
 * By default Prisma rolls back a transaction after five seconds, and waits two seconds for a connection. A handler may
 * take longer, and one that finds another delivery of its message in progress waits until that one has ended. The other
 * roots set no limit; this one is for a handler that never returns.
 */
const TIMEOUT = { prismaMs: 5000, txboxMs: 60_000 }
const MAX_WAIT = { prismaMs: 2000, txboxMs: 10_000 }

/** Limits that the user has set with the option `transactionOptions` of the client remain. */
function limitsOf(client: PrismaClient): { timeout: number; maxWait: number } {
  const options = propertyOf(propertyOf(client, '_engineConfig'), 'transactionOptions')
  const limit = (given: unknown, { prismaMs, txboxMs }: typeof TIMEOUT): number =>
    typeof given === 'number' && given !== prismaMs ? given : txboxMs
  return {
    timeout: limit(propertyOf(options, 'timeout'), TIMEOUT),
    maxWait: limit(propertyOf(options, 'maxWait'), MAX_WAIT),
  }
}

/** Transaction API error: no connection in time, or a transaction that has ended or taken too long. */
const TRANSACTION_API = 'P2028'

function transactionError(error: unknown): unknown {
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

/** The error as the driver would have thrown it: Prisma keeps the server's code in the error's details. */
function driverError(error: unknown): unknown {
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
  return Object.assign(original, { code })
}

/** Prisma returns bytes as an Uint8Array. */
function withBuffers(rows: unknown): SqlResult['rows'] {
  return (rows as SqlResult['rows']).map((row) => {
    const values = Object.entries(row).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value,
    ])
    return Object.fromEntries(values) as SqlResult['rows'][number]
  })
}

function isPrisma(value: unknown): boolean {
  return hasFunction(value, '$queryRawUnsafe') && hasFunction(value, '$executeRawUnsafe')
}

function isClient(value: unknown): boolean {
  return isPrisma(value) && hasFunction(value, '$connect')
}
