import { answerWithin, propertyOf } from '@txbox/core/internal'
import type { DriverAdapter, Isolation, OwnConnection, RootAdapter, SqlResult } from '../adapters.ts'
import { stateOfTracker } from '../connection-monitor.ts'
import { hasFunction } from '../members.ts'
import { sendOwn, watchedOf, type ListeningConnection } from './mariadb-monitor.ts'
import { SET_ISOLATION, mysql2Statements } from './mysql2-statements.ts'

/** The part of a connection of the `mariadb` connector that txbox uses; `mariadb` itself is not imported. */
interface MariadbConnection extends ListeningConnection {
  query(options: object, done?: (error: unknown, result: unknown) => void): unknown
  /** A pool adds these methods. */
  release?(): unknown
  destroy(): void
}
/** A pool of callback style calls `done`, and a pool of promise style returns a promise. */
interface MariadbPool {
  getConnection(done: (error: unknown, connection: MariadbConnection) => void): unknown
}

/** https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html: SERVER_STATUS_flags_enum */
const IN_TRANSACTION = 1
const AUTOCOMMIT = 2

/**
 * A connection of the `mariadb` connector, of promise or callback style. The connector knows the state only after an
 * answer, so txbox monitors all statements of a connection.
 */
export const mariadbHandle: DriverAdapter<MariadbConnection> = {
  name: 'mariadb',
  recognises(handle): handle is MariadbConnection {
    return (
      hasFunction(handle, 'batch') &&
      hasFunction(handle, 'query') &&
      (hasFunction(handle, 'beginTransaction') || isPool(handle))
    )
  },
  state(handle) {
    return isPool(handle) ? 'none' : 'unknown'
  },
  stateNow(handle) {
    return isPool(handle) ? 'none' : stateOfTracker(watchedOf(handle, send)?.monitor)
  },
  async query(handle, text) {
    const watched = watchedOf(handle, send)
    if (watched === undefined) return run(handle, text)
    const { base, monitor } = watched
    const { own, sent } = sendOwn(base, () => send(handle, text))
    monitor.sent('none')
    try {
      const result = await sent
      monitor.succeeded('none')
      return toSqlResult(result, own.status)
    } catch (error) {
      monitor.failed(error, true)
      throw error
    }
  },
  tellsTransaction: true,
  monitor(handle) {
    return isPool(handle) ? undefined : watchedOf(handle, send)?.monitor
  },
  sever: (handle) => handle.destroy?.(),
}

/** A pool of the `mariadb` connector, of promise or callback style. */
export const mariadbRoot: RootAdapter<MariadbPool> = {
  name: 'mariadb',
  checksCommit: true,
  opensConnections: true,
  recognises(root): root is MariadbPool {
    return isPool(root) && hasFunction(root, 'batch') && hasFunction(root, 'query')
  },
  // The pool hides its options.
  maxConnections: () => undefined,
  async query(pool, text, _, timeoutMs) {
    const { connection, release } = await checkOut(pool)
    let answered = false
    try {
      const result = await answerWithin(timeoutMs, run(connection, text))
      answered = true
      return result
    } catch (error) {
      answered = propertyOf(error, 'fatal') === false
      throw error
    } finally {
      release(!answered)
    }
  },
  async connect(pool) {
    const { connection, release } = await checkOut(pool)
    return { query: (text) => run(connection, text), release } satisfies OwnConnection
  },
  // The pool replaces a connection that breaks, and listens to the connection's errors.
  connectApart: (pool) => mariadbRoot.connect(pool),
  async transact(pool, work, isolation) {
    const { connection, release } = await checkOut(pool)
    let broken = true
    try {
      if (isolation !== undefined) await setIsolation(connection, isolation)
      await run(connection, mysql2Statements.begin)
      broken = false
      const result = await work(connection, undefined)
      await run(connection, mysql2Statements.commit)
      return result
    } catch (error) {
      broken ||= await run(connection, mysql2Statements.rollback).then(
        () => false,
        () => true,
      )
      throw error
    } finally {
      release(broken)
    }
  },
}

/** The server's error: transaction characteristics can't be changed while a transaction is in progress. */
const IN_PROGRESS = 1568

async function setIsolation(connection: MariadbConnection, isolation: Isolation): Promise<void> {
  const statement = SET_ISOLATION[isolation]
  try {
    await run(connection, statement)
  } catch (error) {
    if (propertyOf(error, 'errno') !== IN_PROGRESS) throw error
    // With autocommit off, an earlier read has left a transaction open, which START TRANSACTION would commit as well.
    await run(connection, mysql2Statements.commit)
    await run(connection, statement)
  }
}

interface CheckedOut {
  readonly connection: MariadbConnection
  readonly release: (broken: boolean) => void
}

/** The pool listens to the errors of its connections. */
async function checkOut(pool: MariadbPool): Promise<CheckedOut> {
  const connection = await new Promise<MariadbConnection>((resolve, reject) => {
    const promised = pool.getConnection((error, own) => {
      if (error !== null && error !== undefined) reject(error)
      else resolve(own)
    })
    if (hasFunction(promised, 'then')) (promised as Promise<MariadbConnection>).then(resolve, reject)
  })
  return {
    connection,
    release(broken) {
      if (broken) connection.destroy()
      else void connection.release?.()
    },
  }
}

/** Runs one statement that is not monitored as txbox's own. */
async function run(connection: MariadbConnection, sql: string): Promise<SqlResult> {
  const result = await send(connection, sql)
  return toSqlResult(result, connection.info?.status)
}

/** Sends a statement at once. Only a connection of callback style has `connect`. */
function send(connection: MariadbConnection, sql: string): Promise<unknown> {
  if (!hasFunction(connection, 'connect')) return connection.query(optionsOf(sql)) as Promise<unknown>
  return new Promise((resolve, reject) => {
    connection.query(optionsOf(sql), (error, result) => {
      if (error !== null && error !== undefined) reject(error)
      else resolve(result)
    })
  })
}

/** Options with which each value is returned as a Buffer or null, whatever options the user's connection has. */
function optionsOf(sql: string): object {
  return {
    sql,
    rowsAsArray: false,
    nestTables: false,
    metaAsArray: false,
    insertIdAsNumber: true,
    typeCast: (field: { buffer(): unknown }) => field.buffer(),
  }
}

interface OkPacket {
  readonly affectedRows?: number
  readonly insertId?: number | bigint | string
}

function toSqlResult(result: unknown, status: number | null | undefined): SqlResult {
  if (Array.isArray(result)) return { rows: result as SqlResult['rows'], affected: 0 }
  const { affectedRows, insertId } = result as OkPacket
  return {
    rows: [],
    affected: affectedRows ?? 0,
    insertId: Number(insertId ?? 0),
    // With autocommit off, every write is in a transaction, even if the flag does not show it yet.
    ...(typeof status === 'number' && {
      inTransaction: (status & IN_TRANSACTION) !== 0 || (status & AUTOCOMMIT) === 0,
    }),
  }
}

function isPool(value: unknown): boolean {
  return hasFunction(value, 'getConnection')
}
