import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { accessSync, chmodSync, constants, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createConnection } from 'mysql2/promise'
import { until } from '../until.ts'
import { freePort } from './free-port.ts'

/** Starts the server program that is installed here on a free port, with its data in a temporary folder. */
export async function startServerProgram(
  engine: 'mysql' | 'mariadb',
  settings: readonly string[],
): Promise<{ url: string; file: string; stop: () => Promise<void> } | undefined> {
  const file = findProgram(engine)
  if (file === undefined) return undefined
  const data = mkdtempSync(path.join(os.tmpdir(), `txbox-${engine}-`))
  // The server refuses to run as root: there its own user gets the folder.
  const user = os.userInfo().uid === 0 ? ['--user=mysql'] : []
  const folder = path.join(data, 'data')
  let server: ChildProcess | undefined
  const stop = async (): Promise<void> => {
    const ended = new Promise((resolve) => server?.once('exit', resolve))
    // A node that has not become part of its cluster does not heed SIGTERM.
    const forced = setTimeout(() => server?.kill('SIGKILL'), 15_000)
    if (server?.exitCode === null && server.kill('SIGTERM')) await ended
    clearTimeout(forced)
    rmSync(data, { recursive: true, force: true })
  }
  try {
    chmodSync(data, 0o777)
    initialise(engine, file, folder, user)
    const port = await freePort()
    server = spawn(
      file,
      [
        '--no-defaults',
        `--datadir=${folder}`,
        `--port=${port}`,
        '--bind-address=127.0.0.1',
        `--socket=${path.join(data, 's')}`,
        `--pid-file=${path.join(data, 'pid')}`,
        ...user,
        ...settings,
        ...(engine === 'mysql' ? ['--mysqlx=OFF'] : []),
      ],
      { stdio: 'ignore' },
    )
    const url = `mysql://root@127.0.0.1:${port}/`
    await until(
      () => answers(url),
      () => `${file} answers`,
      60_000,
    )
    return { url, file, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function findProgram(engine: 'mysql' | 'mariadb'): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(path.delimiter), '/usr/sbin', '/usr/local/sbin']
  for (const folder of folders) {
    for (const name of engine === 'mysql' ? ['mysqld'] : ['mariadbd', 'mysqld']) {
      const file = path.join(folder, name)
      try {
        accessSync(file, constants.X_OK)
        const version = execFileSync(file, ['--no-defaults', '--version'], {
          encoding: 'utf8',
          stdio: 'pipe',
        })
        if (/mariadb/i.test(version) === (engine === 'mariadb')) return file
      } catch {
        // Not there, or not for us.
      }
    }
  }
  return undefined
}

function initialise(
  engine: 'mysql' | 'mariadb',
  file: string,
  folder: string,
  user: readonly string[],
): void {
  const options = ['--no-defaults', `--datadir=${folder}`, ...user]
  if (engine === 'mysql') execFileSync(file, [...options, '--initialize-insecure'], { stdio: 'pipe' })
  else {
    execFileSync(
      'mariadb-install-db',
      [...options, '--auth-root-authentication-method=normal', '--skip-test-db'],
      {
        stdio: 'pipe',
      },
    )
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const connection = await createConnection({ uri: url, connectTimeout: 1000 })
    await connection.end()
    return true
  } catch {
    return false
  }
}
