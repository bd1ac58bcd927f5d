import type { DriverAdapter, Isolation, OwnConnection, RootAdapter, SqlResult } from '../adapters.ts'
import { stateOfTracker, type MonitoredConnection } from '../connection-monitor.ts'
import { monitorOf, sendingOwn, type WatchedConnection } from './mysql2-monitor.ts'
import { SET_ISOLATION, mysql2Statements } from './mysql2-statements.ts'

/** The part of a `mysql2` connection of callback style that txbox uses; `mysql2` itself is not imported. */
interface CallbackConnection extends WatchedConnection {
  query(options: object, done: (error: unknown, result: unknown) => void): unknown
  destroy(): void
  release?(): void
  on(event: 'error', listener: () => void): unknown
  off(event: 'error', listener: () => void): unknown
  readonly config?: WatchedConnection['config'] & {
    readonly typeCast?: unknown
    readonly queryFormat?: unknown
  }
}
/** A connection of promise style carries one of callback style. */
type Mysql2Connection = CallbackConnection | { readonly connection: CallbackConnection }

interface CallbackPool {
  getConnection(done: (error: unknown, connection: CallbackConnection) => void): void
  readonly config?: { readonly connectionLimit?: number }
}
interface PromisePool {
  readonly pool: CallbackPool
}

/** https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html: SERVER_STATUS_flags_enum */
const IN_TRANSACTION = 1
const AUTOCOMMIT = 2

/**
 * A `mysql2` connection of promise or callback style. Only the answer to a write shows the state of the transaction, so
 * txbox monitors all statements of a connection.
 */
export const mysql2Handle: DriverAdapter<Mysql2Connection> = {
  name: 'mysql2',
  recognises(handle): handle is Mysql2Connection {
    return (
      has(handle, 'execute', 'function') &&
      (isPool(handle) || (has(handle, 'beginTransaction', 'function') && has(handle, 'query', 'function')))
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
  tellsTransaction: true,
  monitor(handle) {
    return isPool(handle) ? undefined : monitored(plain(handle))
  },
  sever: (handle) => plain(handle).destroy(),
}

function monitored(connection: CallbackConnection): MonitoredConnection | undefined {
  return monitorOf(
    connection,
    (sql) =>
      new Promise((resolve, reject) => {
        sendingOwn(connection, () => void run(connection, sql, []).then(resolve, reject))
      }),
  )
}

/** A `mysql2` promise pool. */
export const mysql2Root: RootAdapter<PromisePool> = {
  name: 'mysql2',
  checksCommit: true,
  opensConnections: true,
  recognises(root): root is PromisePool {
    return isPool(root) && isPool(Reflect.get(root, 'pool'))
  },
  maxConnections: ({ pool }) => pool.config?.connectionLimit,
  async query(root, text, values, timeoutMs) {
    const { connection, release } = await checkOut(root)
    let answered = false
    try {
      const result = await run(connection, text, values, timeoutMs)
      answered = true
      return result
    } catch (error) {
      answered = typeof Reflect.get(Object(error), 'sqlState') === 'string'
      throw error
    } finally {
      release(!answered)
    }
  },
  async connect(root) {
    const { connection, release } = await checkOut(root)
    return { query: (text, values) => run(connection, text, values), release } satisfies OwnConnection
  },
  // A pool of mysql2 replaces a connection that breaks, and listens to the connection's errors.
  connectApart: (root) => mysql2Root.connect(root),
  async transact(root, work, isolation) {
    const { tx, connection, release } = await checkOut(root)
    let broken = true
    try {
      if (isolation !== undefined) await setIsolation(connection, isolation)
      await run(connection, mysql2Statements.begin, [])
      broken = false
      const result = await work(tx, undefined)
      await run(connection, mysql2Statements.commit, [])
      return result
    } catch (error) {
      broken ||= await run(connection, mysql2Statements.rollback, []).then(
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

async function setIsolation(connection: CallbackConnection, isolation: Isolation): Promise<void> {
  const statement = SET_ISOLATION[isolation]
  try {
    await run(connection, statement, [])
  } catch (error) {
    if (Reflect.get(Object(error), 'errno') !== IN_PROGRESS) throw error
    // With autocommit off, an earlier read has left a transaction open, which START TRANSACTION would commit as well.
    await run(connection, mysql2Statements.commit, [])
    await run(connection, statement, [])
  }
}

interface CheckedOut {
  /** The connection as the pool returns it. */
  readonly tx: unknown
  readonly connection: CallbackConnection
  readonly release: (broken: boolean) => void
}

async function checkOut(root: PromisePool): Promise<CheckedOut> {
  const tx = await (root as unknown as { getConnection(): Promise<Mysql2Connection> }).getConnection()
  const connection = plain(tx)
  // Without a listener for its 'error' event, a connection that breaks while checked out and idle would end the
  // process.
  const ignore = (): void => undefined
  connection.on('error', ignore)
  return {
    tx,
    connection,
    release(broken) {
      connection.off('error', ignore)
      if (broken) connection.destroy()
      else connection.release?.()
    },
  }
}

/** Runs one statement. */
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

/** With null the driver does not search the text for placeholders; a user's own `queryFormat` may not expect null. */
function noValues({ config }: CallbackConnection): readonly unknown[] | null {
  return typeof config?.queryFormat === 'function' ? [] : null
}

/** The user's own `typeCast` function is overridden only by another function. */
function rawValues({ config }: CallbackConnection): unknown {
  return typeof config?.typeCast === 'function' ? (field: { buffer(): unknown }) => field.buffer() : false
}

interface ResultSetHeader {
  readonly affectedRows?: number | string
  readonly insertId?: number | string
  readonly serverStatus?: number
}

function toSqlResult(result: unknown): SqlResult {
  if (Array.isArray(result)) return { rows: result as SqlResult['rows'], affected: 0 }
  const { affectedRows, insertId, serverStatus } = result as ResultSetHeader
  return {
    rows: [],
    affected: Number(affectedRows ?? 0),
    insertId: Number(insertId ?? 0),
    // With autocommit off, every write is in a transaction, even if the flag does not show it yet.
    ...(serverStatus !== undefined && {
      inTransaction: (serverStatus & IN_TRANSACTION) !== 0 || (serverStatus & AUTOCOMMIT) === 0,
    }),
  }
}

function plain(handle: Mysql2Connection): CallbackConnection {
  return (
    (Reflect.get(handle, 'connection') as CallbackConnection | undefined) ?? (handle as CallbackConnection)
  )
}

function isPool(value: unknown): value is object {
  return has(value, 'getConnection', 'function') && has(value, 'execute', 'function')
}

function has(value: unknown, name: string, type: string): boolean {
  // oxlint-disable-next-line valid-typeof -- the name of a type
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === type
}
