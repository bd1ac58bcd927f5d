import { createConnection, type Connection, type RowDataPacket } from 'mysql2/promise'
import { startServerProgram } from '../../../test/support/engines/servers/mysql-program.ts'
import { DATABASE_TITLES, urlOfDatabase, type DatabaseServer } from './database-server.ts'

/** The MySQL or MariaDB at this address, or a server that is started for the demo from a program on this machine. */
export async function mysqlServer(
  engine: 'mysql' | 'mariadb',
  given: string | undefined,
): Promise<DatabaseServer> {
  if (given !== undefined && !/^(mysql|mariadb):$/.test(URL.parse(given)?.protocol ?? '')) {
    throw new Error('it is not of the form mysql://user:password@host:3306')
  }
  const started = given === undefined ? await startServerProgram(engine, []) : undefined
  const url = given ?? started?.url
  if (url === undefined) throw new Error(`its server program is not installed`)
  try {
    const version = await versionOf(url)
    if (/mariadb/i.test(version) !== (engine === 'mariadb')) throw new Error(`that is version ${version}`)
    const { hostname, port } = new URL(url)
    const address = `${hostname}:${port === '' ? 3306 : port}`
    const origin =
      started === undefined ? 'from DATABASE_URL' : `started from ${started.file} in a temporary folder`
    return {
      description: `${DATABASE_TITLES[engine]} ${version} at ${address}, ${origin}`,
      async createDatabase(name) {
        await onServer(url, (connection) =>
          connection.query(`create database ${name} character set utf8mb4 collate utf8mb4_bin`),
        )
        return urlOfDatabase(url, name)
      },
      dropDatabase: (name) => onServer(url, (connection) => dropDatabase(connection, name)),
      stop: async () => started?.stop(),
    }
  } catch (error) {
    await started?.stop()
    throw error
  }
}

/** A service that was killed may have left a transaction open, for which DROP would wait. */
async function dropDatabase(connection: Connection, name: string): Promise<void> {
  const [rows] = await connection.query<RowDataPacket[]>(
    'select id from information_schema.processlist where db = ?',
    [name],
  )
  for (const row of rows) await connection.query(`kill ${Number(row['id'])}`).catch(() => undefined)
  await connection.query(`drop database if exists ${name}`)
}

function versionOf(url: string): Promise<string> {
  return onServer(url, async (connection) => {
    const [rows] = await connection.query<RowDataPacket[]>('select version() as version')
    return String(rows[0]?.['version'])
  })
}

async function onServer<R>(url: string, work: (connection: Connection) => Promise<R>): Promise<R> {
  const connection = await createConnection({ uri: urlOfDatabase(url, ''), connectTimeout: 5000 })
  try {
    return await work(connection)
  } finally {
    await connection.end()
  }
}
