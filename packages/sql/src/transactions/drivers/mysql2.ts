import { propertyOf } from '@txbox/core/internal'
import type { DriverAdapter, SqlResult } from '../adapters.ts'
import { stateOfTracker, type MonitoredConnection } from '../monitors/connection-monitor.ts'
import { emitterBehind, type ListeningHandle } from '../monitors/emitter-behind.ts'
import { endOf } from '../end-of-connection.ts'
import { hasFunction } from '../members.ts'
import { mysqlRoot, resultOf } from './mysql-root.ts'
import { monitorOf, sendingOwn, type WatchedConnection } from '../monitors/mysql2-monitor.ts'

/** The part of a `mysql2` connection of callback style that txbox uses; `mysql2` itself is not imported. */
interface CallbackConnection extends WatchedConnection, ListeningHandle {
  query(options: object, done: (error: unknown, result: unknown) => void): unknown
  destroy(): void
  release?(): void
  /** The socket. */
  readonly stream?: object
  readonly config?: WatchedConnection['config'] & {
    readonly typeCast?: unknown
    readonly queryFormat?: unknown
  }
}
/** A connection of promise style contains one of callback style. */
type Mysql2Connection = CallbackConnection | { readonly connection: CallbackConnection }

interface CallbackPool {
  getConnection(done: (error: unknown, connection: CallbackConnection) => void): void
  readonly config?: { readonly connectionLimit?: number }
  /** Undocumented: if it is missing, txbox does not check the idle connections. */
  readonly _freeConnections?: { readonly length: number }
  readonly _allConnections?: { readonly length: number }
}
interface PromisePool {
  readonly pool: CallbackPool
}

/**
 * A `mysql2` connection of promise or callback style. Only the answer to a write shows the state of the transaction, so
 * txbox monitors all statements of a connection.
 */
export const mysql2Handle: DriverAdapter<Mysql2Connection> = {
  name: 'mysql2',
  recognises(handle): handle is Mysql2Connection {
    return (
      hasFunction(handle, 'execute') &&
      (isPool(handle) || (hasFunction(handle, 'beginTransaction') && hasFunction(handle, 'query')))
    )
  },
  state(handle) {
    return isPool(handle) ? 'none' : 'unknown'
  },
  stateNow(handle) {
    return isPool(handle) ? 'none' : stateOfTracker(monitored(plain(handle)))
  },
  query(handle, text, values) {
    const connection = plain(handle)
    const monitor = monitored(connection)
    return new Promise((resolve, reject) => {
      const options = optionsOf(connection, text, values)
      sendingOwn(connection, () =>
        connection.query(options, (error, result) => {
          if (error === null || error === undefined) {
            monitor?.succeeded('none')
            resolve(toSqlResult(result))
          } else {
            monitor?.failed(error, true)
            reject(error)
          }
        }),
      )
      monitor?.sent('none')
    })
  },
  reportsTransaction: true,
  monitor(handle) {
    return isPool(handle) ? undefined : monitored(plain(handle))
  },
  // An error that the server has sent without being asked has its number as `code`.
  watchEnd: (handle) => endOf(plain(handle), (error) => typeof propertyOf(error, 'code') === 'number'),
  sever: (handle) => plain(handle).destroy(),
}

function monitored(connection: CallbackConnection): MonitoredConnection | undefined {
  return monitorOf(connection, sendOwn)
}

function sendOwn(connection: CallbackConnection, sql: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    sendingOwn(connection, () => void run(connection, sql, []).then(resolve, reject))
  })
}

export const mysql2Root = mysqlRoot<PromisePool>({
  name: 'mysql2',
  recognises(root): root is PromisePool {
    return isPool(root) && isPool(Reflect.get(root, 'pool'))
  },
  maxConnections: ({ pool }) => pool.config?.connectionLimit,
  isAnswer: (error) => typeof propertyOf(error, 'sqlState') === 'string',
  isFull: ({ pool }) =>
    pool._freeConnections?.length === 0 &&
    Number(pool._allConnections?.length) >= (pool.config?.connectionLimit ?? Infinity),
  idle: ({ pool }) => ({ pool, count: Number(pool._freeConnections?.length) }),
  async lend(root) {
    const tx = await (root as unknown as { getConnection(): Promise<Mysql2Connection> }).getConnection()
    const connection = plain(tx)
    // Without a listener for its 'error' event, a connection that breaks while checked out and idle would end the
    // process.
    const ignore = (): void => undefined
    connection.on('error', ignore)
    return {
      tx,
      query: (text, values, timeoutMs) => run(connection, text, values, timeoutMs),
      release(broken) {
        connection.off('error', ignore)
        if (broken) connection.destroy()
        else connection.release?.()
      },
    }
  },
})

function run(
  connection: CallbackConnection,
  sql: string,
  values: readonly unknown[],
  timeout?: number,
): Promise<SqlResult> {
  return new Promise((resolve, reject) => {
    connection.query({ ...optionsOf(connection, sql, values), timeout }, (error, result) => {
      if (error !== null && error !== undefined) reject(error)
      else resolve(toSqlResult(result))
    })
  })
}

/** Query options with which each value is returned as a Buffer or null, whatever options the user's pool has. */
function optionsOf(connection: CallbackConnection, sql: string, values: readonly unknown[]): object {
  return {
    sql,
    values: values.length === 0 ? noValues(connection) : values,
    rowsAsArray: false,
    nestTables: false,
    typeCast: rawValues(connection),
  }
}

/**
 * Given null as the values, the driver does not search the text for placeholders. A user's own `queryFormat` may not
 * expect null.
 */
function noValues({ config }: CallbackConnection): readonly unknown[] | null {
  return typeof config?.queryFormat === 'function' ? [] : null
}

/** Only another function overrides the user's own `typeCast` function. */
function rawValues({ config }: CallbackConnection): unknown {
  return typeof config?.typeCast === 'function' ? (field: { buffer(): unknown }) => field.buffer() : false
}

function toSqlResult(result: unknown): SqlResult {
  return resultOf(result, propertyOf(result, 'serverStatus') as number | undefined)
}

/** The connections of callback style, by their sockets: a handle may be a proxy that several connections share. */
const connections = new WeakMap<object, CallbackConnection>()

function plain(handle: Mysql2Connection): CallbackConnection {
  const underneath = Reflect.get(handle, 'connection') as CallbackConnection | undefined
  if (underneath !== undefined) return underneath
  const callback = handle as CallbackConnection
  const { stream } = callback
  if (stream === undefined) return callback
  let connection = connections.get(stream)
  if (connection === undefined) {
    connection = (emitterBehind(callback) ?? callback) as CallbackConnection
    connections.set(stream, connection)
  }
  return connection
}

function isPool(value: unknown): value is object {
  return hasFunction(value, 'getConnection') && hasFunction(value, 'execute')
}
