import { randomBytes } from 'node:crypto'
import { Client, Pool } from 'pg'

const LOCAL = 'postgres://postgres@127.0.0.1:5432/postgres'

/** A database for this run only. `drop` drops it, even if clients are still connected. */
export class BenchDatabase {
  readonly name: string
  /** The address of the maintenance database, for queries about this database from outside. */
  readonly #serverUrl: string
  /** The address of this database, for libraries that open their connections themselves. */
  readonly url: string
  readonly #pools = new Set<Pool>()
  #dropping: Promise<void> | undefined

  private constructor(serverUrl: string, name: string) {
    this.name = name
    this.#serverUrl = serverUrl
    const url = new URL(serverUrl)
    url.pathname = `/${name}`
    this.url = url.href
  }

  static async create(serverUrl: string = process.env['DATABASE_URL'] ?? LOCAL): Promise<BenchDatabase> {
    const database = new BenchDatabase(serverUrl, `txbox_bench_${randomBytes(4).toString('hex')}`)
    await database.#onServer(`create database ${database.name}`)
    return database
  }

  /** The database that another process has created. */
  static existing(url: string): BenchDatabase {
    return new BenchDatabase(url, new URL(url).pathname.slice(1))
  }

  /** The same for every variant; connections stay open between the slices. */
  pool(options: { readonly max: number; readonly pipeline?: boolean }): Pool {
    const pool = new Pool({ ...options, connectionString: this.url, idleTimeoutMillis: 0 })
    // Dropping the database ends connections, as expected; a statement that uses such a connection reports an error.
    pool.on('error', () => undefined)
    pool.on('connect', (client) => void client.on('error', () => undefined))
    this.#pools.add(pool)
    return pool
  }

  /** A client that is not connected yet. */
  client(): Client {
    const client = new Client({ connectionString: this.url })
    client.on('error', () => undefined)
    return client
  }

  /** Closes the pools that `pool` has opened. */
  async close(pool: Pool): Promise<void> {
    this.#pools.delete(pool)
    await pool.end()
  }

  drop(): Promise<void> {
    this.#dropping ??= this.#onServer(`drop database if exists ${this.name} with (force)`)
    return this.#dropping
  }

  async #onServer(statement: string): Promise<void> {
    const client = new Client({ connectionString: this.#serverUrl })
    await client.connect()
    try {
      await client.query(statement)
    } finally {
      await client.end()
    }
  }
}
