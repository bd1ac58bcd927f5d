import { execFile } from 'node:child_process'
import { chownSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { KeptProcess } from '../../test/support/engines/servers/kept-process.ts'
import {
  findMysqlProgram,
  initialiseMysql,
  mysqlAnswers,
  mysqlCommand,
  type MysqlEngine as MysqlEngineName,
  type MysqlProgram,
} from '../../test/support/engines/servers/mysql-program.ts'
import { until } from '../../test/support/worlds/until.ts'
import {
  CLIENT,
  DATABASE,
  type DatabaseEngine,
  type ServerPlace,
  type ServerRole,
} from './database-engine.ts'

const START_LIMIT_MS = 60_000

/**
 * The settings of both servers. The binary log contains everything, including the changes that a standby received from its
 * primary. Commits reach the kernel, not the disk (`flush_log_at_trx_commit=2`, `sync_binlog=0`): a server that dies by
 * SIGKILL loses nothing; a crash of the machine would lose commits.
 */
const SETTINGS = [
  '--innodb-flush-log-at-trx-commit=2',
  '--sync-binlog=0',
  '--innodb-buffer-pool-size=128M',
  '--log-bin=binlog',
  '--relay-log=relay',
  '--relay-log-recovery=ON',
]

const OWN_SETTINGS: Readonly<Record<MysqlEngineName, readonly string[]>> = {
  mysql: [
    '--gtid-mode=ON',
    '--enforce-gtid-consistency=ON',
    '--log-replica-updates=ON',
    '--skip-replica-start=ON',
    '--innodb-redo-log-capacity=64M',
    '--admin-address=127.0.0.1',
    '--create-admin-listener-thread=ON',
  ],
  mariadb: [
    '--binlog-format=ROW',
    '--log-slave-updates=ON',
    '--skip-slave-start',
    '--innodb-log-file-size=64M',
    '--extra-max-connections=10',
  ],
}

/** MySQL or MariaDB, with replication by GTID. */
export class MysqlEngine implements DatabaseEngine {
  readonly name: MysqlEngineName
  readonly #program: MysqlProgram
  readonly #settings: readonly string[]

  private constructor(program: MysqlProgram, maxConnections: number) {
    this.name = program.engine
    this.#program = program
    this.#settings = [...SETTINGS, ...OWN_SETTINGS[program.engine], `--max-connections=${maxConnections}`]
  }

  static async find(name: MysqlEngineName, maxConnections: number): Promise<MysqlEngine> {
    const program = await findMysqlProgram(name)
    if (program !== undefined) return new MysqlEngine(program, maxConnections)
    const [title, file] = name === 'mysql' ? ['MySQL', 'TXBOX_MYSQLD'] : ['MariaDB', 'TXBOX_MARIADBD']
    throw new Error(`No server program of ${title} is found: install ${name}-server, or name it by ${file}.`)
  }

  own(folder: string): void {
    const { user } = this.#program
    if (user !== undefined) chownSync(folder, user.uid, user.gid)
  }

  async initialise(data: string): Promise<void> {
    await initialiseMysql(this.#program, data, ['--skip-log-bin', '--innodb-redo-log-capacity=64M'])
  }

  async copy(from: string, to: string): Promise<void> {
    await promisify(execFile)('cp', ['-pR', from, to], { ...this.#program.user, cwd: path.dirname(from) })
    // The UUID of the server, of MySQL: the copy makes one of its own.
    await rm(path.join(to, 'auto.cnf'), { force: true })
  }

  async start(place: ServerPlace, role: ServerRole): Promise<KeptProcess> {
    const readOnly = this.name === 'mysql' ? '--super-read-only=ON' : '--read-only=ON'
    const command = mysqlCommand(this.#program, place, [
      ...this.#settings,
      `--${this.name === 'mysql' ? 'admin' : 'extra'}-port=${place.adminPort}`,
      `--server-id=${place.number}`,
      ...(role.name === 'primary' ? [] : [readOnly]),
    ])
    const server = await KeptProcess.start({
      command,
      folder: path.dirname(place.data),
      log: `${place.data}.log`,
      endSignal: 'SIGKILL',
      user: this.#program.user,
    })
    try {
      await until(
        async () => {
          const urls = [place.port, place.adminPort].map((port) => `mysql://root@127.0.0.1:${port}/`)
          return (await Promise.all(urls.map(mysqlAnswers))).every(Boolean)
        },
        () => `the server answers on both of its ports; it says: ${server.lastWords}`,
        START_LIMIT_MS,
      )
      return server
    } catch (error) {
      await server.stop()
      throw error
    }
  }

  async prepare(primary: ServerPlace): Promise<void> {
    const statements = [`create database ${DATABASE} character set utf8mb4`]
    // As which of them a client of this machine is taken depends on the server's settings.
    for (const user of [`${CLIENT}@localhost`, `${CLIENT}@127.0.0.1`]) {
      statements.push(`create user ${user}`, `grant all on ${DATABASE}.* to ${user}`)
      statements.push(`grant process on *.* to ${user}`)
      if (this.name === 'mysql') statements.push(`grant select on performance_schema.* to ${user}`)
    }
    await this.#run(primary, statements)
  }

  async follow(standby: ServerPlace, linkPort: number): Promise<void> {
    const source = `change replication source to source_host = '127.0.0.1', source_port = ${linkPort},
      source_user = 'root', source_connect_retry = 1, source_retry_count = 1000000, source_auto_position = 1`
    const master = `change master to master_host = '127.0.0.1', master_port = ${linkPort},
      master_user = 'root', master_connect_retry = 1, master_use_gtid = slave_pos`
    await this.#run(
      standby,
      this.name === 'mysql'
        ? ['stop replica', 'reset replica all', source, 'start replica']
        : ['stop slave', 'reset slave all', master, 'start slave'],
    )
  }

  async position(primary: ServerPlace): Promise<string> {
    const name = this.name === 'mysql' ? '@@global.gtid_executed' : '@@global.gtid_binlog_pos'
    return this.#value(primary, `select ${name} as value`)
  }

  async hasReached(standby: ServerPlace, position: string): Promise<boolean> {
    const reached =
      this.name === 'mysql'
        ? `select gtid_subset('${position}', @@global.gtid_executed) as value`
        : `select ${position === '' ? '0' : `master_gtid_wait('${position}', 0)`} = 0 as value`
    return (await this.#value(standby, reached)) === '1'
  }

  async replication(standby: ServerPlace): Promise<string> {
    const [row] = await this.#rows(standby, `show ${this.name === 'mysql' ? 'replica' : 'slave'} status`)
    const fields = Object.entries(row ?? {}).filter(([name]) => /_Running$|_Error$|Gtid/i.test(name))
    return `replication: ${JSON.stringify(Object.fromEntries(fields))}`
  }

  async prune(standby: ServerPlace): Promise<void> {
    await this.#run(standby, ['flush binary logs'])
    const logs = await this.#rows(standby, 'show binary logs')
    await this.#run(standby, [`purge binary logs to '${String(logs.at(-1)?.['Log_name'])}'`])
  }

  async promote(standby: ServerPlace): Promise<void> {
    await this.#run(
      standby,
      this.name === 'mysql'
        ? [
            'stop replica',
            'reset replica all',
            'set global super_read_only = off',
            'set global read_only = off',
          ]
        : ['stop slave', 'reset slave all', 'set global read_only = off'],
    )
  }

  clientUrl(port: number): string {
    return `mysql://${CLIENT}@127.0.0.1:${port}/${DATABASE}`
  }

  adminUrl({ adminPort }: ServerPlace): string {
    return `mysql://root@127.0.0.1:${adminPort}/${DATABASE}`
  }

  async #run(server: ServerPlace, statements: readonly string[]): Promise<void> {
    for (const statement of statements) await this.#rows(server, statement)
  }

  async #value(server: ServerPlace, statement: string): Promise<string> {
    const [row] = await this.#rows(server, statement)
    return String(row?.['value'])
  }

  async #rows(server: ServerPlace, statement: string): Promise<readonly RowDataPacket[]> {
    const connection = await createConnection({ host: '127.0.0.1', port: server.adminPort, user: 'root' })
    try {
      const [rows] = await connection.query<RowDataPacket[]>(statement)
      return rows
    } finally {
      connection.destroy()
    }
  }
}
