import { DatabaseUnavailableError, InvalidOptionError, type TransactionLibrary } from '@txbox/core'
import { answerWithin, nameOf } from '@txbox/core/internal'
import type { OwnConnection, Resolved, RootAdapter, SqlResult } from './adapters.ts'

/** How the root of a library finds what lies underneath. */
export interface Underneath {
  rootOf(pool: unknown): RootAdapter | undefined
  transaction(connection: unknown): Promise<Resolved>
}

interface Pool {
  readonly adapter: RootAdapter
  readonly pool: unknown
}

/**
 * Uses the root of a library: its transactions are opened by the library, and everything else runs on the driver's pool
 * under the root, or on connections that the library lends. The pool is looked up for each use, because some libraries
 * create it when they connect.
 */
export function libraryRoot(
  library: TransactionLibrary,
  db: unknown,
  { rootOf, transaction }: Underneath,
): RootAdapter {
  const root = library.root!
  const { name } = library
  // Known at once for most libraries; a pool that a library creates later cannot copy or send in one flight.
  const given = root.poolOf?.(db)
  const early = given instanceof Promise ? undefined : under(given)

  function under(candidate: unknown): Pool | undefined {
    for (const pool of [candidate, promiseStyleOf(candidate)]) {
      const adapter = pool === undefined || pool === null ? undefined : rootOf(pool)
      if (adapter !== undefined) return { adapter, pool }
    }
    return undefined
  }

  async function poolNow(): Promise<Pool | undefined> {
    if (root.poolOf === undefined) return undefined
    const found = await root.poolOf(db)
    if (found === undefined || found === null) {
      throw new DatabaseUnavailableError(`The ${name} root has no pool yet. Connect it before txbox uses it.`)
    }
    const pool = under(found)
    if (pool !== undefined) return pool
    throw new InvalidOptionError(
      `Under the ${name} root is ${nameOf(found)}, not a pool that txbox can use. Pass a pool of the driver as 'db'.`,
    )
  }

  async function borrow(): Promise<OwnConnection> {
    if (root.borrow === undefined) {
      throw new InvalidOptionError(
        `A ${name} root lends no connection, which the relay, the garbage collector, dead letters and migrate need. Pass a ` +
          "pool of the driver as 'db' for them, such as a pg.Pool, or a pool of mysql2 or mariadb.",
      )
    }
    const { connection, giveBack } = await root.borrow(db)
    try {
      const { driver, connection: own } = await transaction(connection)
      return {
        query: (text, values) => driver.query(own, text, values),
        release: (broken) => void (async () => giveBack(broken))().catch(() => undefined),
      }
    } catch (error) {
      await giveBack(false)
      throw error
    }
  }

  async function queryOnBorrowed(
    text: string,
    values: readonly unknown[],
    timeoutMs: number,
  ): Promise<SqlResult> {
    const { query, release } = await borrow()
    let broken = false
    try {
      return await answerWithin(timeoutMs, query(text, values))
    } catch (error) {
      broken = error instanceof DatabaseUnavailableError
      throw error
    } finally {
      release(broken)
    }
  }

  return {
    name,
    checksCommit: false,
    opensConnections: early?.adapter.opensConnections ?? root.poolOf !== undefined,
    recognises: (value): value is unknown => root.recognises(value),
    maxConnections: () => root.maxConnections?.(db) ?? early?.adapter.maxConnections(early.pool),
    async query(_, text, values, timeoutMs) {
      const pool = await poolNow()
      return pool === undefined
        ? queryOnBorrowed(text, values, timeoutMs)
        : pool.adapter.query(pool.pool, text, values, timeoutMs)
    },
    copyOut: () => early?.adapter.copyOut?.(early.pool),
    queryAlone: () => early?.adapter.queryAlone?.(early.pool),
    async connect() {
      const pool = await poolNow()
      return pool === undefined ? borrow() : pool.adapter.connect(pool.pool)
    },
    async connectApart(_, timeoutMs) {
      const pool = await poolNow()
      return pool === undefined ? borrow() : pool.adapter.connectApart(pool.pool, timeoutMs)
    },
    ...(mayListen(early, root.poolOf) && {
      async connectListening(_, timeoutMs, on) {
        const pool = await poolNow()
        const listen = pool?.adapter.connectListening
        if (pool === undefined || listen === undefined) {
          throw new InvalidOptionError(`A ${name} root cannot listen. Set the option 'listen' of postgres().`)
        }
        return listen.call(pool.adapter, pool.pool, timeoutMs, on)
      },
    }),
    transact: (_, work, isolation) => root.transact(db, (tx) => work(tx, undefined), isolation),
  }
}

/** A root whose pool is created later may turn out to be able to listen. */
function mayListen(early: Pool | undefined, poolOf: unknown): boolean {
  return early === undefined ? poolOf !== undefined : early.adapter.connectListening !== undefined
}

/** mysql2 has pools of callback style, from which a pool of promise style is made. */
function promiseStyleOf(pool: unknown): unknown {
  const promise: unknown = Reflect.get(Object(pool), 'promise')
  return typeof promise === 'function' ? (promise.call(pool) as unknown) : undefined
}
