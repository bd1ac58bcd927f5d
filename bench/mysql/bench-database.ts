import { randomBytes } from 'node:crypto'
import { createConnection, createPool, type Connection, type Pool } from 'mysql2/promise'

/** A database for this run only. `drop` drops it, even if clients are still connected. */
export class BenchDatabase {
  readonly name = `txbox_bench_${randomBytes(4).toString('hex')}`
  readonly #serverUrl: string
  #dropping: Promise<void> | undefined

  private constructor(serverUrl: string) {
    this.#serverUrl = serverUrl
  }

  static async create(
    serverUrl: string = process.env['DATABASE_URL'] ?? 'mysql://root@127.0.0.1:3306',
  ): Promise<BenchDatabase> {
    const database = new BenchDatabase(serverUrl)
    await database.#onServer(`create database ${database.name} character set utf8mb4`)
    return database
  }

  /** Connections stay open between the slices. */
  pool(connectionLimit: number): Pool {
    return createPool({ uri: this.url, connectionLimit, maxIdle: connectionLimit })
  }

  /** Each variant has its own pool: txbox watches each connection that it has used, which would slow the work by hand. */
  poolOfEach<Name>(names: readonly Name[], connectionLimit: number): ReadonlyMap<Name, Pool> {
    return new Map(names.map((name) => [name, this.pool(connectionLimit)]))
  }

  connect(): Promise<Connection> {
    return createConnection(this.url)
  }

  drop(): Promise<void> {
    this.#dropping ??= this.#onServer(`drop database if exists ${this.name}`)
    return this.#dropping
  }

  /** The address of this database, for libraries that open their connections themselves. */
  get url(): string {
    const url = new URL(this.#serverUrl)
    url.pathname = `/${this.name}`
    return url.href
  }

  async #onServer(statement: string): Promise<void> {
    const url = new URL(this.#serverUrl)
    url.pathname = '/'
    const connection = await createConnection(url.href)
    try {
      await connection.query(statement)
    } finally {
      await connection.end()
    }
  }
}
