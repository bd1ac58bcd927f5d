import { createConnection, type Connection, type RowDataPacket } from 'mysql2/promise'
import { isLeftover, newTestDatabaseName } from './test-database-name.ts'

/** Creates a database for a test file. */
export async function createDatabase(serverUrl: string): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = newTestDatabaseName()
  await onServer(serverUrl, (connection) => connection.query(`create database ${name} character set utf8mb4`))
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () => onServer(serverUrl, (connection) => dropDatabase(connection, name)),
  }
}

/** Drops the databases of runs that died, or those that the workers of this run have kept. */
export async function dropLeftovers(serverUrl: string, scope: 'this run' | 'earlier runs'): Promise<void> {
  await onServer(serverUrl, async (connection) => {
    const [rows] = await connection.query<RowDataPacket[]>(
      'select schema_name as name from information_schema.schemata',
    )
    for (const row of rows) {
      const name = String(row['name'])
      // Another run may be dropping it too, or it belongs to another user, who must drop it.
      if (isLeftover(name, scope)) await dropDatabase(connection, name).catch(() => null)
    }
  })
}

/** Whether MariaDB's REPEATABLE READ can refuse rows newer than the snapshot. No release before 2024 can. */
export async function hasSnapshotIsolation(serverUrl: string): Promise<boolean> {
  return onServer(serverUrl, async (connection) => {
    const [rows] = await connection.query<RowDataPacket[]>("show variables like 'innodb_snapshot_isolation'")
    return rows.length > 0
  })
}

/** A test that broke off may have left a transaction open, which DROP would wait for. */
async function dropDatabase(connection: Connection, name: string): Promise<void> {
  const [rows] = await connection.query<RowDataPacket[]>(
    'select id from information_schema.processlist where db = ?',
    [name],
  )
  for (const row of rows) await connection.query(`kill ${Number(row['id'])}`).catch(() => null)
  await connection.query(`drop database if exists \`${name}\``)
}

async function onServer<R>(serverUrl: string, work: (connection: Connection) => Promise<R>): Promise<R> {
  const url = new URL(serverUrl)
  url.pathname = '/'
  const connection = await createConnection(url.href)
  try {
    return await work(connection)
  } finally {
    await connection.end()
  }
}
