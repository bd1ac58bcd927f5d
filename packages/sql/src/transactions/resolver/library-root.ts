import {
  DatabaseUnavailableError,
  InvalidOptionError,
  type TransactionLibrary,
  type TransactionLibraryRoot,
} from '@txbox/core'
import { nameOf, unanswered, within } from '@txbox/core/internal'
import type { Awaitable, Resolved, SqlResult } from '../adapters.ts'
import type {
  Isolation,
  ListeningConnection,
  ListeningEvents,
  Opening,
  OwnConnection,
  RootAdapter,
} from '../root-adapter.ts'
import { hiddenStatements } from '../drivers/hidden-statements.ts'
import { isSilent, suspectConnections } from '../drivers/suspect-connections.ts'

/** How to find the driver's pool and connections under the root of a library. */
interface Underneath {
  rootOf(pool: unknown): RootAdapter | undefined
  /** Returns whether this is a connection, a pool or a transaction of a driver. */
  isOfDriver(value: unknown): boolean
  transaction(connection: unknown): Awaitable<Resolved>
}

interface Pool {
  readonly adapter: RootAdapter
  readonly pool: unknown
}

/**
 * Adapts the root of a library. The library opens the transactions. Everything else runs on the driver's pool under the
 * root, or on connections that the library lends. The pool is looked up at each use, because some libraries create it
 * only when they connect.
 */
export class LibraryRoot implements RootAdapter {
  readonly name: string
  readonly checksCommit = false
  readonly connectApart?: NonNullable<RootAdapter['connectApart']>
  readonly connectListening?: NonNullable<RootAdapter['connectListening']>
  readonly #root: TransactionLibraryRoot
  readonly #db: unknown
  readonly #underneath: Underneath
  /**
   * The pool, if the library has it at once. With a pool that is created later, COPY and transactions in one flight are
   * not available.
   */
  readonly #early: Pool | undefined

  constructor(library: TransactionLibrary, db: unknown, underneath: Underneath) {
    this.name = library.name
    this.#root = library.root!
    this.#db = db
    this.#underneath = underneath
    const pool = this.#root.poolOf?.(db)
    this.#early = pool instanceof Promise ? undefined : this.#poolUnder(pool)
    if (this.#early === undefined && underneath.isOfDriver(pool)) throw singleConnection(this.name, pool)
    const hasPool = this.#root.poolOf !== undefined
    const mayConnect = this.#early === undefined ? hasPool : this.#early.adapter.connectApart !== undefined
    if (mayConnect) this.connectApart = (_, timeoutMs) => this.#connectApart(timeoutMs)
    const mayListen = this.#early === undefined ? hasPool : this.#early.adapter.connectListening !== undefined
    if (mayListen) this.connectListening = (_, timeoutMs, on) => this.#listen(timeoutMs, on)
  }

  recognises(value: unknown): value is unknown {
    return this.#root.recognises(value)
  }

  maxConnections(): number | undefined {
    return this.#root.maxConnections?.(this.#db) ?? this.#early?.adapter.maxConnections(this.#early.pool)
  }

  async query(_: unknown, text: string, values: readonly unknown[], timeoutMs: number): Promise<SqlResult> {
    const found = await this.#pool()
    if (found !== undefined) return found.adapter.query(found.pool, text, values, timeoutMs)
    const { query, release } = await this.#borrow()
    let broken = false
    try {
      return await within(query(text, values), timeoutMs, unanswered)
    } catch (error) {
      broken = error instanceof DatabaseUnavailableError
      throw error
    } finally {
      release(broken)
    }
  }

  copyOut(): ReturnType<NonNullable<RootAdapter['copyOut']>> {
    return this.#early?.adapter.copyOut?.(this.#early.pool)
  }

  queryAlone(): ReturnType<NonNullable<RootAdapter['queryAlone']>> {
    return this.#early?.adapter.queryAlone?.(this.#early.pool)
  }

  async connect(): Promise<OwnConnection> {
    const found = await this.#pool()
    return found === undefined ? this.#borrow() : found.adapter.connect(found.pool)
  }

  transact<T>(
    _: unknown,
    work: (tx: unknown, opening: Opening | undefined) => Promise<T>,
    isolation: Isolation | undefined,
  ): Promise<T> {
    return this.#root.transact(this.#db, (tx) => work(tx, undefined), isolation)
  }

  /** If the pool turns out to open no connection, each statement runs on any connection of the pool. */
  async #connectApart(timeoutMs: number): Promise<OwnConnection> {
    const { adapter, pool } = (await this.#pool())!
    if (adapter.connectApart !== undefined) return adapter.connectApart(pool, timeoutMs)
    return {
      query: (text, values) => adapter.query(pool, text, values, timeoutMs),
      release: () => undefined,
    }
  }

  async #listen(timeoutMs: number, on: ListeningEvents): Promise<ListeningConnection> {
    const found = await this.#pool()
    if (found?.adapter.connectListening === undefined) {
      throw new InvalidOptionError(
        `A ${this.name} root cannot listen. Set the option 'listen' of postgres().`,
      )
    }
    return found.adapter.connectListening(found.pool, timeoutMs, on)
  }

  async #pool(): Promise<Pool | undefined> {
    if (this.#root.poolOf === undefined) return undefined
    const given = await this.#root.poolOf(this.#db)
    if (given === undefined || given === null) {
      throw new DatabaseUnavailableError(
        `The ${this.name} root has no pool yet. Connect it before txbox uses it.`,
      )
    }
    const found = this.#poolUnder(given)
    if (found !== undefined) return found
    throw new InvalidOptionError(
      `Under the ${this.name} root is ${nameOf(given)}, not a pool that txbox can use. Pass a pool of the driver as 'db'.`,
    )
  }

  #poolUnder(given: unknown): Pool | undefined {
    for (const pool of [given, promiseStyleOf(given)]) {
      const adapter = pool === undefined || pool === null ? undefined : this.#underneath.rootOf(pool)
      if (adapter !== undefined) return { adapter, pool }
    }
    return undefined
  }

  /** Borrows a connection that answers. */
  async #borrow(): Promise<OwnConnection> {
    for (;;) {
      const own = await this.#borrowAny()
      if (!(await isSilent(this, () => own.query(hiddenStatements.check, [])))) return own
      own.release(true)
    }
  }

  async #borrowAny(): Promise<OwnConnection> {
    if (this.#root.borrow === undefined) {
      throw new InvalidOptionError(
        `A ${this.name} root lends no connection, which the relay, the garbage collector, dead letters and migrate need. Pass ` +
          "a pool of the driver as 'db' for them, such as a pg.Pool, or a pool of mysql2 or mariadb.",
      )
    }
    const lent = await this.#root.borrow(this.#db)
    try {
      const { driver, connection } = await this.#underneath.transaction(lent.connection)
      let released = false
      const release = (broken: boolean): void => {
        if (released) return
        released = true
        if (broken) suspectConnections(this)
        void (async () => lent.giveBack(broken))().catch(() => undefined)
      }
      return {
        query: (text, values) => driver.query(connection, text, values),
        release,
        abandon: () => release(true),
      }
    } catch (error) {
      await lent.giveBack(false)
      throw error
    }
  }
}

/** On one connection, transactions that run at the same time would be one transaction. */
function singleConnection(name: string, given: unknown): InvalidOptionError {
  return new InvalidOptionError(
    `Under the ${name} root is ${nameOf(given)}, a single connection, on which the transactions of messages that are handled ` +
      'at the same time would be one transaction. Pass a pool of the driver to the library.',
  )
}

/** Returns a pool of promise style, which can be made from mysql2's pools of callback style. */
function promiseStyleOf(pool: unknown): unknown {
  const promise: unknown = Reflect.get(Object(pool), 'promise')
  return typeof promise === 'function' ? (promise.call(pool) as unknown) : undefined
}
