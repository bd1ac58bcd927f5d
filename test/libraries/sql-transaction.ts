import { defineLibrary, sqlTransaction, type SqlTransaction } from '@txbox/core'
import { poolOf as mysqlPoolOf, setupOf } from '../support/engines/mysql-pool.ts'
import { poolOf as pgPoolOf, settingsOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryUnderTest } from './library-under-test.ts'
import { inSavepoint } from './savepoint.ts'

type Run = (text: string, values: readonly unknown[]) => Promise<{ rows?: Row[]; rowCount?: number | null }>

/** A client in a pool of the driver, which is nothing but a way to run SQL. */
interface Client {
  /** For txbox. */
  readonly run: Run
  /** For handlers. */
  readonly exec: Run
  release(broken: boolean): void
  close(): void
}
interface Clients {
  readonly pool: object
  readonly connect: () => Promise<Client>
  readonly close: () => Promise<void>
}

export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (_, engine) =>
  wrapping(engine, { tellsEnd: false })

/** sqlTransaction on a plain client of a driver, opened by a root that defineLibrary describes. */
export function wrapping(
  engine: LibraryOptions['engine'],
  { tellsEnd }: { tellsEnd: boolean },
): LibraryUnderTest {
  const clients = new WeakMap<object, Client>()
  return {
    name: `sqlTransaction ${tellsEnd ? 'with' : 'without'} isOpen`,
    driver: 'hidden',
    rootFor: 'all',
    keptHandleJoins: !tellsEnd,
    // PostgreSQL is asked by a savepoint, and by its release, unless isOpen answers. MySQL and MariaDB are asked by one
    // statement, also after a write; and a savepoint marks the transaction, until its release after the handler.
    extraRoundTrips:
      engine === 'postgres'
        ? { perCall: tellsEnd ? 0 : 2, afterHandler: 1 }
        : { perCall: 1, perWrite: 1, afterHandler: 3 },
    open(options) {
      const { pool, connect, close } = engine === 'postgres' ? onPg(options) : onMysql(options)
      const transact = async <T>(
        work: (tx: SqlTransaction) => Promise<T>,
        isolation?: string,
      ): Promise<T> => {
        const client = await connect()
        let open = true
        let broken = true
        const tx = sqlTransaction({
          name: 'mine',
          query: client.run,
          close: () => client.close(),
          ...(tellsEnd && { isOpen: () => open }),
        })
        clients.set(tx, client)
        try {
          if (engine !== 'postgres' && isolation !== undefined) {
            await client.exec(`set transaction isolation level ${isolation}`, [])
          }
          await client.exec('begin', [])
          if (engine === 'postgres' && isolation !== undefined) {
            await client.exec(`set transaction isolation level ${isolation}`, [])
          }
          try {
            const result = await work(tx)
            open = false
            await client.exec('commit', [])
            broken = false
            return result
          } catch (error) {
            open = false
            await client.exec('rollback', []).then(
              () => (broken = false),
              () => undefined,
            )
            throw error
          }
        } finally {
          client.release(broken)
        }
      }
      const db = { pool }
      const mine = defineLibrary({
        name: 'mine',
        recognises: (handle): handle is never => handle === db,
        connectionOf: () => undefined,
        root: {
          recognises: (root): root is typeof db => root === db,
          poolOf: (root) => root.pool,
          transact: (__, work, isolation) => transact((tx) => work(tx as never), isolation),
        },
      })
      return { db, libraries: [mine], transact, close }
    },
    exec: async (tx, text, parameters) => (await clients.get(tx)!.exec(text, parameters)).rows ?? [],
    nested: (tx, work) =>
      inSavepoint(
        (sql) => clients.get(tx)!.exec(sql, []),
        () => work(tx),
      ),
    stray: { 'a root that the user has described': ({ db }) => db },
  }
}

function onPg(options: LibraryOptions): Clients {
  const pool = pgPoolOf(options.url, { max: options.max, ...settingsOf(options) })
  return {
    pool,
    async connect() {
      const client = await pool.connect()
      const run: Run = (text, values) => client.query<Row>(text, [...values])
      return {
        run,
        exec: run,
        release: (broken) => client.release(broken),
        close: () => void client.end().catch(() => undefined),
      }
    },
    close: () => pool.end(),
  }
}

function onMysql(options: LibraryOptions): Clients {
  const pool = mysqlPoolOf(options.url, { connectionLimit: options.max }, setupOf(options)).promise()
  return {
    pool,
    async connect() {
      const connection = await pool.getConnection()
      const running =
        (asBytes: boolean): Run =>
        async (sql, values) => {
          const typeCast = (field: { buffer(): Buffer | null }): Buffer | null => field.buffer()
          const [answer] = await connection.query({ sql, values: [...values], ...(asBytes && { typeCast }) })
          return Array.isArray(answer)
            ? { rows: answer as Row[] }
            : { rowCount: (answer as { affectedRows: number }).affectedRows }
        }
      return {
        run: running(true),
        exec: running(false),
        release: (broken) => (broken ? connection.destroy() : connection.release()),
        close: () => connection.destroy(),
      }
    },
    close: () => pool.end(),
  }
}
