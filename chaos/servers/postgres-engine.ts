import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { freePort } from '../../test/support/engines/servers/free-port.ts'
import type { KeptProcess } from '../../test/support/engines/servers/kept-process.ts'
import { PostgresProgram, queryPostgres } from '../../test/support/engines/servers/postgres-program.ts'
import {
  CLIENT,
  DATABASE,
  type DatabaseEngine,
  type ServerPlace,
  type ServerRole,
} from './database-engine.ts'

/** For the checker and the driver, beside those for the clients. */
const ADMIN_CONNECTIONS = 10

/** Commits wait for the kernel, not for the disk (`fsync=off`): only a crash of the machine loses anything. */
export class PostgresEngine implements DatabaseEngine {
  readonly name = 'postgres'
  readonly #program: PostgresProgram
  readonly #settings: readonly string[]

  constructor(folder: string, maxConnections: number) {
    this.#program = PostgresProgram.find(folder)
    this.#settings = [
      `max_connections=${maxConnections + ADMIN_CONNECTIONS}`,
      `superuser_reserved_connections=${ADMIN_CONNECTIONS}`,
      'shared_buffers=64MB',
      'max_wal_size=256MB',
      // A standby that was held back can still find the log that it has missed.
      'wal_keep_size=256MB',
      'max_wal_senders=4',
      // Debezium reads the log.
      'wal_level=logical',
      'wal_retrieve_retry_interval=100ms',
    ]
  }

  own(folder: string): void {
    this.#program.own(folder)
  }

  async initialise(data: string): Promise<void> {
    await this.#program.initialise(data)
    // A standby refuses to start on data that was written with a higher limit of connections.
    const server = await this.#program.start(data, await freePort(), this.#settings)
    await server.stop()
  }

  async copy(from: string, to: string): Promise<void> {
    await this.#program.copy(from, to)
    await rm(path.join(to, 'postmaster.pid'), { force: true })
  }

  async start(place: ServerPlace, role: ServerRole): Promise<KeptProcess> {
    const signal = path.join(place.data, 'standby.signal')
    const settings = [...this.#settings]
    if (role.name === 'standby') {
      await writeFile(signal, '')
      settings.push(`primary_conninfo=host=127.0.0.1 port=${role.linkPort} user=postgres`)
    }
    if (role.name === 'former') settings.push('default_transaction_read_only=on')
    return this.#program.start(place.data, place.port, settings)
  }

  async prepare({ port }: ServerPlace): Promise<void> {
    await queryPostgres(port, `create role ${CLIENT} login`)
    await queryPostgres(port, `create database ${DATABASE} owner ${CLIENT}`)
  }

  async follow(): Promise<void> {
    // A PostgreSQL standby replicates from its start.
  }

  async position({ port }: ServerPlace): Promise<string> {
    const [row] = await queryPostgres(port, 'select pg_current_wal_lsn()::text as position')
    return String(row?.['position'])
  }

  async hasReached({ port }: ServerPlace, position: string): Promise<boolean> {
    const [row] = await queryPostgres(port, `select pg_last_wal_replay_lsn() >= '${position}' as it`)
    return row?.['it'] === true
  }

  async replication({ port }: ServerPlace): Promise<string> {
    const [row] = await queryPostgres(
      port,
      "select coalesce((select status from pg_stat_wal_receiver), 'no connection') as status, pg_last_wal_replay_lsn() as at",
    )
    return `replication: ${JSON.stringify(row)}`
  }

  async prune(): Promise<void> {
    // PostgreSQL bounds its write-ahead log itself.
  }

  async promote({ port }: ServerPlace): Promise<void> {
    const [row] = await queryPostgres(port, 'select pg_promote(true, 60) as it')
    if (row?.['it'] !== true) throw new Error('The PostgreSQL standby was not promoted within 60 s.')
  }

  clientUrl(port: number): string {
    return `postgres://${CLIENT}@127.0.0.1:${port}/${DATABASE}`
  }

  adminUrl({ port }: ServerPlace): string {
    return `postgres://postgres@127.0.0.1:${port}/${DATABASE}`
  }
}
