import type { HandleAdapter, Isolation, OwnConnection, RootAdapter, SqlResult } from './handle-adapter.ts'
import { stateOfTrack, type SeenConnection } from './seen-connection.ts'
import { seenOn, sendingOurs, type WatchedConnection } from './watch-mysql2.ts'

/** What we use of a `mysql2` connection of callback style; `mysql2` itself is not imported. */
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
/** One of promise style carries one of callback style. */
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
 * A `mysql2` connection, promise or callback style. It tells the state of its transaction in the answer to a write only,
 * so that all statements are watched, of whichever style.
 */
export const mysql2Handle: HandleAdapter<Mysql2Connection> = {
  library: 'mysql2',
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
    return isPool(handle) ? 'none' : stateOfTrack(watched(plain(handle)))
  },
  query(handle, text, values) {
    const connection = plain(handle)
    const seen = watched(connection)
    return new Promise((resolve, reject) => {
      const options = optionsOf(connection, text, values)
      sendingOurs(connection, () =>
        connection.query(options, (error, result) => {
          if (error === null || error === undefined) {
            seen?.succeeded('none')
            resolve(toSqlResult(result))
          } else {
            seen?.failed(error, true)
            reject(error)
          }
        }),
      )
      seen?.sent('none')
    })
  },
  tellsTransaction: true,
  seen(handle) {
    return isPool(handle) ? undefined : watched(plain(handle))
  },
}

function watched(connection: CallbackConnection): SeenConnection | undefined {
  return seenOn(
    connection,
    (sql) =>
      new Promise((resolve, reject) => {
        sendingOurs(connection, () => void run(connection, sql, []).then(resolve, reject))
      }),
  )
}

/** A `mysql2` promise pool. */
export const mysql2Root: RootAdapter<PromisePool> = {
  library: 'mysql2',
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
  // A pool of mysql2 replaces a connection that breaks, and listens to its errors.
  connectApart: (root) => mysql2Root.connect(root),
  async transact(root, work, isolation) {
    const { tx, connection, release } = await checkOut(root)
    let broken = true
    try {
      if (isolation !== undefined) await setIsolation(connection, isolation)
      await run(connection, 'START TRANSACTION', [])
      broken = false
      const result = await work(tx, undefined)
      await run(connection, 'COMMIT', [])
      return result
    } catch (error) {
      broken ||= await run(connection, 'ROLLBACK', []).then(
        () => false,
        () => true,
      )
      throw error
    } finally {
      release(broken)
    }
  },
}

/** The server says so: transaction characteristics can't be changed while a transaction is in progress. */
const IN_PROGRESS = 1568

const SET_ISOLATION: Readonly<Record<Isolation, string>> = {
  'read committed': 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED',
  'repeatable read': 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
  serializable: 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
}

/** Of the next transaction only: the level of the connection stays what it was. */
async function setIsolation(connection: CallbackConnection, isolation: Isolation): Promise<void> {
  const statement = SET_ISOLATION[isolation]
  try {
    await run(connection, statement, [])
  } catch (error) {
    if (Reflect.get(Object(error), 'errno') !== IN_PROGRESS) throw error
    // With autocommit off, a read before has left one open; START TRANSACTION would commit it, too.
    await run(connection, 'COMMIT', [])
    await run(connection, statement, [])
  }
}

interface CheckedOut {
  /** As the pool's own user would get it. */
  readonly tx: unknown
  readonly connection: CallbackConnection
  readonly release: (broken: boolean) => void
}

async function checkOut(root: PromisePool): Promise<CheckedOut> {
  const tx = await (root as unknown as { getConnection(): Promise<Mysql2Connection> }).getConnection()
  const connection = plain(tx)
  // One that breaks while it is ours and idle would end the process by an 'error' event that nobody listens to.
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

/** One statement. */
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

/** No option of the user's changes what comes back: each value is a Buffer or null. */
function optionsOf(connection: CallbackConnection, sql: string, values: readonly unknown[]): object {
  return {
    sql,
    values: values.length === 0 ? noValues(connection) : values,
    rowsAsArray: false,
    nestTables: false,
    typeCast: rawValues(connection),
  }
}

/** With null the driver does not search the text for places to put them; a function of the user's may not know null. */
function noValues({ config }: CallbackConnection): readonly unknown[] | null {
  return typeof config?.queryFormat === 'function' ? [] : null
}

/** A function of the user's goes before everything but another function. */
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
    // With autocommit off every write is in a transaction, whether or not the flag says so yet.
    ...(serverStatus !== undefined && {
      inTransaction: (serverStatus & IN_TRANSACTION) !== 0 || (serverStatus & AUTOCOMMIT) === 0,
    }),
  }
}

function plain(handle: Mysql2Connection): CallbackConnection {
  return 'connection' in handle ? handle.connection : handle
}

function isPool(value: unknown): value is object {
  return has(value, 'getConnection', 'function') && has(value, 'execute', 'function')
}

function has(value: unknown, name: string, type: string): boolean {
  // oxlint-disable-next-line valid-typeof -- the name of a type
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === type
}
