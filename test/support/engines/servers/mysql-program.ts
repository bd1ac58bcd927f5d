import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { until } from '../../worlds/until.ts'
import { freePort } from './free-port.ts'
import { serverUser, type SystemUser } from './server-user.ts'

export type MysqlEngine = 'mysql' | 'mariadb'

/** The program of a MySQL or MariaDB server, and how to run it. */
export interface MysqlProgram {
  readonly engine: MysqlEngine
  /** The program, preceded by the loader of its libraries if it needs its own loader. */
  readonly command: readonly string[]
  /** Options that name the places of the program's other files. */
  readonly installation: readonly string[]
  /** The user who runs the server and owns its folders. `undefined`: the user of this process. */
  readonly user: SystemUser | undefined
}

const INSTALLATION = /^--(basedir|lc[-_]messages[-_]dir|character[-_]sets[-_]dir|plugin[-_]dir)=/

/**
 * Finds a server program: what `TXBOX_MYSQLD` or `TXBOX_MARIADBD` names, what is on the path, or the program of the server
 * at `TXBOX_TEST_MYSQL_URL` or `TXBOX_TEST_MARIADB_URL`, if that server runs on this machine.
 *
 * @throws {Error} if the named program is not a server of this engine
 */
export async function findMysqlProgram(engine: MysqlEngine): Promise<MysqlProgram | undefined> {
  const user = serverUser('mysql')
  const variable = engine === 'mysql' ? 'TXBOX_MYSQLD' : 'TXBOX_MARIADBD'
  const named = process.env[variable]
  if (named !== undefined && named !== '') {
    const program = { engine, command: [named], installation: [], user }
    if (isServer(program)) return program
    throw new Error(`${variable} names no server program of ${engine}: ${named}`)
  }
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/sbin', '/usr/local/sbin']
  for (const folder of folders) {
    for (const name of engine === 'mysql' ? ['mysqld'] : ['mariadbd', 'mysqld']) {
      const program = { engine, command: [path.join(folder, name)], installation: [], user }
      if (isServer(program)) return program
    }
  }
  const words = await commandOfServer(process.env[`TXBOX_TEST_${engine.toUpperCase()}_URL`])
  const at = words.findIndex((word) => /(^|\/)(mysqld|mariadbd)$/.test(word))
  if (at === -1) return undefined
  const installation = words.filter((word) => INSTALLATION.test(word))
  const program = { engine, command: words.slice(0, at + 1), installation, user }
  return isServer(program) ? program : undefined
}

/** Makes a data folder, in a folder that the server's user can write to. */
export async function initialiseMysql(
  program: MysqlProgram,
  data: string,
  settings: readonly string[] = [],
): Promise<void> {
  const { engine, command, installation, user } = program
  const [file, ...words] =
    engine === 'mysql'
      ? [
          ...command,
          '--no-defaults',
          ...installation,
          '--initialize-insecure',
          '--secure-file-priv=NULL',
          ...settings,
        ]
      : ['mariadb-install-db', '--no-defaults', '--auth-root-authentication-method=normal', '--skip-test-db']
  await promisify(execFile)(file!, [...words, `--datadir=${data}`, ownTmpdir(program, data)], {
    ...user,
    cwd: path.dirname(data),
  })
}

/**
 * A folder for the temporary tables of one server: a MariaDB server that starts removes all temporary tables from its
 * folder, including those of other servers, which then fail.
 */
function ownTmpdir({ user }: MysqlProgram, data: string): string {
  const folder = `${data}.tmp`
  mkdirSync(folder, { recursive: true })
  if (user !== undefined) chownSync(folder, user.uid, user.gid)
  return `--tmpdir=${folder}`
}

/** The command that starts a server, for the server's user. */
export function mysqlCommand(
  program: MysqlProgram,
  place: { readonly data: string; readonly port: number },
  settings: readonly string[],
): string[] {
  return [
    ...program.command,
    '--no-defaults',
    ...program.installation,
    `--datadir=${place.data}`,
    `--port=${place.port}`,
    '--bind-address=127.0.0.1',
    `--socket=${place.data}.s`,
    `--pid-file=${place.data}.pid`,
    ownTmpdir(program, place.data),
    // The default is a folder of the package, which may not exist.
    ...(program.engine === 'mysql' ? ['--mysqlx=OFF', '--secure-file-priv=NULL'] : []),
    ...settings,
  ]
}

/** Starts the server program that is installed here on a free port, with its data in a temporary folder. */
export async function startServerProgram(
  engine: MysqlEngine,
  settings: readonly string[],
): Promise<{ url: string; file: string; stop: () => Promise<void> } | undefined> {
  const program = await findMysqlProgram(engine)
  if (program === undefined) return undefined
  const folder = mkdtempSync(path.join(os.tmpdir(), `txbox-${engine}-`))
  const data = path.join(folder, 'data')
  let server: ChildProcess | undefined
  const stop = async (): Promise<void> => {
    const ended = new Promise((resolve) => server?.once('exit', resolve))
    // A node that has not joined its cluster ignores SIGTERM.
    const forced = setTimeout(() => server?.kill('SIGKILL'), 15_000)
    if (server?.exitCode === null && server.kill('SIGTERM')) await ended
    clearTimeout(forced)
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    chmodSync(folder, 0o777)
    await initialiseMysql(program, data)
    const port = await freePort()
    const [file, ...words] = mysqlCommand(program, { data, port }, settings)
    server = spawn(file!, words, { ...program.user, stdio: 'ignore' })
    const url = `mysql://root@127.0.0.1:${port}/`
    await until(
      () => mysqlAnswers(url),
      () => `${file} answers`,
      60_000,
    )
    return { url, file: program.command.at(-1)!, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

export async function mysqlAnswers(url: string): Promise<boolean> {
  try {
    const connection = await createConnection({ uri: url, connectTimeout: 1000 })
    await connection.end()
    return true
  } catch {
    return false
  }
}

function isServer({ engine, command, user }: MysqlProgram): boolean {
  try {
    const [file, ...words] = command
    accessSync(file!, constants.X_OK)
    const options = { ...user, cwd: '/', encoding: 'utf8', stdio: 'pipe' } as const
    const version = execFileSync(file!, [...words, '--no-defaults', '--version'], options)
    return /mariadb/i.test(version) === (engine === 'mariadb')
  } catch {
    // The file does not exist, or this user may not run it.
    return false
  }
}

/** The words of the command that started a server; none if the server is not on this machine or not visible. */
async function commandOfServer(url: string | undefined): Promise<readonly string[]> {
  if (url === undefined || !['127.0.0.1', 'localhost'].includes(new URL(url).hostname)) return []
  try {
    const connection = await createConnection({ uri: url, connectTimeout: 5000 })
    try {
      const [rows] = await connection.query<RowDataPacket[]>('select @@pid_file as file')
      const pid = Number(readFileSync(String(rows[0]?.['file']), 'utf8'))
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    } finally {
      connection.destroy()
    }
  } catch {
    // The server does not answer or runs in a container, or the system has no such file.
    return []
  }
}
