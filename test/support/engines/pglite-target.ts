import { openAsBlob } from 'node:fs'
import { PGlite } from '@electric-sql/pglite'
import { Kysely, PGliteDialect, type PGlite as DialectPGlite } from 'kysely'
import { migrate } from '@txbox/postgres'
import { libraryKinds, libraryRootOn } from './library-roots.ts'
import { PostgresOutboxTarget } from './postgres-outbox-target.ts'
import { numbered } from './postgres-pool.ts'
import { kyselyRoot } from './postgres-roots.ts'
import { PostgresTarget } from './postgres-target.ts'
import type { HandleKind, Root, RootOptions, Row } from './target.ts'

/**
 * PostgreSQL in the process of the test file, through Kysely's dialect. It has one connection: SQL from outside waits until
 * an open transaction has ended.
 */
export class PgliteTarget extends PostgresTarget {
  override readonly kinds: readonly HandleKind[] = libraryKinds ?? [
    { name: 'Kysely transaction', library: 'kysely', driver: 'kysely', pipelined: false, joinsBegin: false },
  ]
  #pglite: PGlite | undefined

  constructor() {
    super({ oddRoots: {}, strayHandles: {} })
  }

  override async create(address: string, options: { migrated: boolean }): Promise<void> {
    this.#pglite = await PGlite.create({ loadDataDir: await openAsBlob(address.replace(/^pglite:/, '')) })
    await this.createTestTables()
    if (options.migrated) await this.migrate()
  }

  override async close(): Promise<void> {
    await this.#pglite?.close()
  }

  override address(): never {
    throw new Error('PGlite listens nowhere.')
  }

  override open(_kind: HandleKind, options: RootOptions = {}): Root {
    if (options.isolation !== undefined && options.isolation !== 'read committed')
      throw new Error('The settings of its one connection are those of all roots.')
    if (libraryKinds !== undefined) return libraryRootOn('pglite:', options, this.#database())
    return kyselyRoot(this.#kysely(), options)
  }

  override async migrate(options: { schema?: string } = {}): Promise<readonly string[]> {
    return (await migrate(this.#kysely(), options)).applied
  }

  override async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    return (await this.#database().query<Row>(numbered(text), [...parameters])).rows
  }

  #database(): PGlite {
    if (this.#pglite === undefined) throw new Error('The database is created before the first test.')
    return this.#pglite
  }

  /** Closing a root does not close the database. */
  #kysely(): Kysely<object> {
    const pglite = this.#database()
    const shared: DialectPGlite = {
      get closed() {
        return pglite.closed
      },
      get ready() {
        return pglite.ready
      },
      waitReady: pglite.waitReady,
      query: (text, parameters, options) => pglite.query(text, parameters, options),
      transaction: (work) => pglite.transaction(work),
      close: async () => undefined,
    }
    return new Kysely({ dialect: new PGliteDialect({ pglite: shared }) })
  }
}

export class PgliteOutboxTarget extends PostgresOutboxTarget {
  readonly #database: PgliteTarget

  constructor(target: PgliteTarget) {
    super(target)
    this.#database = target
  }

  override async open(): Promise<void> {
    // There is no server to connect to.
  }

  override sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    return this.#database.sql(text, parameters)
  }
}
