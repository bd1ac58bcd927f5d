import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Client, Pool, type PoolConfig } from 'pg'
import { inject, onTestFinished } from 'vitest'
import { freePort } from '../support/engines/servers/free-port.ts'
import { KeptProcess } from '../support/engines/servers/kept-process.ts'
import { serverUser } from '../support/engines/servers/server-user.ts'
import { until } from '../support/worlds/until.ts'

export type PoolMode = 'session' | 'transaction' | 'statement'

/** PgBouncer refuses to run as root. */
const RUN_BY = serverUser('postgres')

/** A PgBouncer of this test's own, in front of the databases of the server. It lets every user in. */
export class PgbouncerUnderTest {
  readonly #database: URL
  readonly #folder: string
  readonly #port: number
  #process: KeptProcess | undefined

  private constructor(database: URL, folder: string, port: number) {
    this.#database = database
    this.#folder = folder
    this.#port = port
  }

  /** @param connections how many connections to the server it has. */
  static async started(url: string, mode: PoolMode, connections: number): Promise<PgbouncerUnderTest> {
    const database = new URL(url)
    const folder = await mkdtemp(path.join(os.tmpdir(), 'txbox-pgbouncer-'))
    const subject = new PgbouncerUnderTest(database, folder, await freePort())
    await writeFile(path.join(folder, 'pgbouncer.ini'), subject.#settings(mode, connections))
    if (RUN_BY !== undefined) await chown(folder, RUN_BY.uid, RUN_BY.gid)
    onTestFinished(async () => {
      await subject.kill()
      await rm(folder, { recursive: true })
    })
    await subject.start()
    return subject
  }

  /** The address of the database, through PgBouncer. */
  get url(): string {
    const url = new URL(this.#database)
    url.hostname = '127.0.0.1'
    url.port = String(this.#port)
    return url.href
  }

  /** A pool of connections to PgBouncer, which is closed after the test. */
  pool(config: PoolConfig = {}): Pool {
    const pool = new Pool({ connectionString: this.url, max: 6, ...config })
    pool.on('error', () => undefined)
    pool.on('connect', (client) => void client.on('error', () => undefined))
    onTestFinished(() => pool.end())
    return pool
  }

  async start(): Promise<void> {
    this.#process = await KeptProcess.start({
      command: [inject('servers')['pgbouncer-program'] ?? 'pgbouncer', 'pgbouncer.ini'],
      folder: this.#folder,
      log: path.join(this.#folder, 'output'),
      endSignal: 'SIGKILL',
      user: RUN_BY,
    })
    await until(
      () => this.#answers(),
      () => `PgBouncer answers; it said: ${this.#process?.lastWords}`,
    )
  }

  /** Kills PgBouncer, with all connections, until it is started again. */
  async kill(): Promise<void> {
    await this.#process?.stop()
  }

  async #answers(): Promise<boolean> {
    const client = new Client({ connectionString: this.url })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await client.query('select 1')
      return true
    } catch {
      return false
    } finally {
      await client.end().catch(() => undefined)
    }
  }

  #settings(mode: PoolMode, connections: number): string {
    const { hostname, port, username, password } = this.#database
    const login = [
      `host=${decodeURIComponent(hostname)}`,
      `port=${port === '' ? 5432 : port}`,
      `user=${decodeURIComponent(username)}`,
      ...(password === '' ? [] : [`password=${decodeURIComponent(password)}`]),
    ]
    return `[databases]
* = ${login.join(' ')}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${this.#port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${connections}
max_client_conn = 200
`
  }
}
