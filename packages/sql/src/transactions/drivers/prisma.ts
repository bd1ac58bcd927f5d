import type { IsolationLevel, TransactionLibrary } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import type { ConnectionMonitor, DriverAdapter, Engine, SqlResult } from '../adapters.ts'
import { plainValues } from '../array-text.ts'
import type { Send } from '../monitors/connection-monitor.ts'
import { hasFunction } from '../members.ts'
import { withItsColumns } from './renamed-columns.ts'
import { HiddenMonitor } from '../monitors/hidden-monitor.ts'
import { pgStatements } from './pg-statements.ts'
import { driverError, notRun, otherPrisma, transactionError } from './prisma-errors.ts'

/** The part of an interactive transaction of Prisma that txbox uses. A client has the same methods, and `$connect`. */
interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: readonly unknown[]): PromiseLike<unknown>
  $executeRawUnsafe(text: string, ...values: readonly unknown[]): PromiseLike<unknown>
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

/**
 * Prisma runs a statement either for its rows or for their number. The text of a txbox statement shows which of the two
 * is needed. On PostgreSQL the whole text is searched, because it contains no values. On MySQL it contains values, so
 * only its first word is examined.
 */
const RETURNS_ROWS: Readonly<Record<Engine, RegExp>> = {
  postgres: /^\s*(?:select|with)\b|\breturning\b/i,
  // MariaDB has settings for one statement in front of it, which are a comment for MySQL.
  mysql: /^\s*(?:\/\*M! )?(?:set statement [\w =.,]+ for\s*)?(?:\*\/)?\s*\(?\s*select\b/i,
}

/**
 * An interactive transaction of Prisma 7 on a driver adapter: adapter-pg, or adapter-mariadb. Prisma hides the
 * connection, so nothing can be monitored. Prisma itself refuses statements in a transaction that has ended.
 */
export function prismaOn(engine: Engine): DriverAdapter<PrismaTransaction> {
  const monitors = new WeakMap<object, PrismaMonitor>()
  const query = async (
    tx: PrismaTransaction,
    text: string,
    values: readonly unknown[],
  ): Promise<SqlResult> => {
    const plain = engine === 'postgres' ? plainValues(values) : []
    try {
      if (RETURNS_ROWS[engine].test(text)) {
        const rows = await answerTo(() => tx.$queryRawUnsafe(text, ...plain))
        return { rows: withItsColumns(withBuffers(rows), text, 'Prisma'), affected: Number.NaN }
      }
      return { rows: [], affected: Number(await answerTo(() => tx.$executeRawUnsafe(text, ...plain))) }
    } catch (error) {
      throw driverError(error, engine)
    }
  }
  const monitorOf = (tx: PrismaTransaction): ConnectionMonitor => {
    const scope = scopeOf(tx, engine)
    const monitor = monitors.get(scope) ?? new PrismaMonitor((sql) => query(tx, sql, []))
    monitors.set(scope, monitor)
    return monitor
  }
  return {
    name: 'Prisma',
    recognises: (handle): handle is PrismaTransaction => isPrisma(handle),
    engineOf: (tx) => PROVIDERS.get(propertyOf(tx, '_activeProvider')),
    // PostgreSQL refuses statements in an aborted transaction. MySQL runs them after a deadlock, without a transaction.
    state: () => (engine === 'postgres' ? 'open' : 'unknown'),
    hidesState: true,
    identityOf: (tx) => scopeOf(tx, engine),
    monitor: (tx) => (engine === 'postgres' ? undefined : monitorOf(tx)),
    query,
    ...(engine === 'postgres' && {
      limitIdleTime: (tx: PrismaTransaction, milliseconds: number) =>
        query(tx, pgStatements.limitIdleTime(milliseconds), []),
    }),
  }
}

/** The providers of Prisma, as a client has them in an undocumented property. */
const PROVIDERS: ReadonlyMap<unknown, Engine> = new Map([
  ['postgresql', 'postgres'],
  ['postgres', 'postgres'],
  ['mysql', 'mysql'],
])

class PrismaMonitor extends HiddenMonitor {
  readonly #send: Send

  constructor(send: Send) {
    super(send)
    this.#send = send
  }

  /**
   * Each statement is sent in its own turn of the event loop, one right after the other, so nothing else runs in
   * between.
   */
  async sendTogether(statements: readonly string[]): Promise<void> {
    await Promise.all(statements.map((sql) => this.#send(sql)))
  }
}

/** A `PrismaClient`, for `inbox.run` and `transact`. It lends no connection. */
export const prisma: TransactionLibrary<PrismaTransaction, PrismaClient> = {
  name: 'Prisma',
  // A client that was passed by mistake instead of a transaction. Transactions are recognized by the driver adapter
  // above.
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
 * By default, Prisma rolls back a transaction after five seconds, and waits two seconds for a connection. A handler may
 * take longer, and a handler that finds another delivery of its message in flight waits until that delivery has ended.
 * The other roots have no time limit; the limit here only stops a handler that never returns.
 */
const TIMEOUT = { prismaMs: 5000, txboxMs: 60_000 }
const MAX_WAIT = { prismaMs: 2000, txboxMs: 10_000 }

/**
 * Returns the limits of a transaction. Limits that the user has set with the client's option `transactionOptions` stay
 * in effect.
 */
function limitsOf(client: PrismaClient): { timeout: number; maxWait: number } {
  const options = propertyOf(propertyOf(client, '_engineConfig'), 'transactionOptions')
  const limit = (given: unknown, { prismaMs, txboxMs }: typeof TIMEOUT): number =>
    typeof given === 'number' && given !== prismaMs ? given : txboxMs
  return {
    timeout: limit(propertyOf(options, 'timeout'), TIMEOUT),
    maxWait: limit(propertyOf(options, 'maxWait'), MAX_WAIT),
  }
}

/** The maximum number of times that a statement is sent while Prisma does not run it. */
const ATTEMPTS = 5

/**
 * Sends a statement. Prisma bundles the statements of a transaction that are sent in one tick, runs them one after the
 * other, and stops at the first that fails: it does not run the rest, whose promises resolve with `undefined` (7.10).
 */
async function answerTo(send: () => PromiseLike<unknown>): Promise<unknown> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const answer = await inOwnTurn(send)
    if (answer !== undefined) return answer
  }
  throw notRun()
}

/**
 * Sends a statement in its own turn of the event loop, so that Prisma bundles it with no other statement. Prisma checks
 * in the same turn that the transaction is open. So if a caller does not await txbox, the statement is not sent after
 * COMMIT or ROLLBACK.
 */
function inOwnTurn(send: () => PromiseLike<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    setImmediate(() => void send().then(resolve, reject))
  })
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

const SCOPE = Symbol.for('prisma.client.transaction.scope_context')

/**
 * Returns the object that a transaction shares only with the transactions nested in it. Undocumented. The handle itself
 * may be a proxy that many transactions share.
 */
function scopeOf(tx: PrismaTransaction, engine: Engine): object {
  const scope = propertyOf(propertyOf(tx, SCOPE), 'scopeState')
  if (typeof scope !== 'object' || scope === null) throw otherPrisma(engine)
  return scope
}

function isPrisma(value: unknown): boolean {
  return hasFunction(value, '$queryRawUnsafe') && hasFunction(value, '$executeRawUnsafe')
}

function isClient(value: unknown): boolean {
  return isPrisma(value) && hasFunction(value, '$connect')
}
