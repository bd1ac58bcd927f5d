import { propertyOf, unanswered, within } from '@txbox/core/internal'
import type { DriverAdapter, SqlResult } from '../adapters.ts'
import { stateOfTracker } from '../monitors/connection-monitor.ts'
import { hasFunction } from '../members.ts'
import { mysqlRoot, resultOf } from './mysql-root.ts'
import { sendOwn, watchedOf, type ListeningConnection } from '../monitors/mariadb-monitor.ts'

/** The part of a connection of the `mariadb` connector that txbox uses; `mariadb` itself is not imported. */
interface MariadbConnection extends ListeningConnection {
  query(options: object, done?: (error: unknown, result: unknown) => void): unknown
  /** Present on connections of a pool. */
  release?(): unknown
  destroy(): void
}
/** A pool of callback style calls `done`, and a pool of promise style returns a promise. */
interface MariadbPool {
  idleConnections?(): number
  activeConnections?(): number
  getConnection(done: (error: unknown, connection: MariadbConnection) => void): unknown
}

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
      return resultOf(result, own.status)
    } catch (error) {
      monitor.failed(error, true)
      throw error
    }
  },
  reportsTransaction: true,
  monitor(handle) {
    return isPool(handle) ? undefined : watchedOf(handle, send)?.monitor
  },
  sever: (handle) => handle.destroy?.(),
}

/** A pool of the `mariadb` connector, of promise or callback style. */
export const mariadbRoot = mysqlRoot<MariadbPool>({
  name: 'mariadb',
  recognises(root): root is MariadbPool {
    return isPool(root) && hasFunction(root, 'batch') && hasFunction(root, 'query')
  },
  // The pool hides its options.
  maxConnections: () => undefined,
  isFull: (pool) => pool.idleConnections?.() === 0 && Number(pool.activeConnections?.()) > 0,
  isAnswer: (error) => propertyOf(error, 'fatal') === false,
  /** The pool itself listens for errors of its connections. */
  async lend(pool) {
    const connection = await new Promise<MariadbConnection>((resolve, reject) => {
      const promised = pool.getConnection((error, own) => {
        if (error !== null && error !== undefined) reject(error)
        else resolve(own)
      })
      if (hasFunction(promised, 'then')) (promised as Promise<MariadbConnection>).then(resolve, reject)
    })
    return {
      tx: connection,
      query(text, _, timeoutMs) {
        const running = run(connection, text)
        return timeoutMs === undefined ? running : within(running, timeoutMs, unanswered)
      },
      release(broken) {
        if (broken) connection.destroy()
        else void connection.release?.()
      },
    }
  },
})

/** Runs one statement that is not monitored as txbox's own. */
async function run(connection: MariadbConnection, sql: string): Promise<SqlResult> {
  const result = await send(connection, sql)
  return resultOf(result, connection.info?.status)
}

/** Only a connection of callback style has `connect`. */
function send(connection: MariadbConnection, sql: string): Promise<unknown> {
  if (!hasFunction(connection, 'connect')) return connection.query(optionsOf(sql)) as Promise<unknown>
  return new Promise((resolve, reject) => {
    connection.query(optionsOf(sql), (error, result) => {
      if (error !== null && error !== undefined) reject(error)
      else resolve(result)
    })
  })
}

/**
 * Returns options with which each value is returned as a Buffer or null, whatever options the user's connection has.
 */
function optionsOf(sql: string): object {
  return {
    sql,
    rowsAsArray: false,
    nestTables: false,
    metaAsArray: false,
    insertIdAsNumber: true,
    typeCast: bytesOf,
  }
}

function bytesOf(field: { buffer(): unknown }): unknown {
  return field.buffer()
}

function isPool(value: unknown): boolean {
  return hasFunction(value, 'getConnection')
}
