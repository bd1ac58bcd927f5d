import mysql from 'mysql2/promise'
import { Client } from 'pg'
import { sqlOfMysql, sqlOfPg, type Sql } from './sql.ts'

/** A connection of the driver itself, past the proxy. */
export interface DirectConnection extends Sql {
  close(): Promise<void>
}

/** The name that distinguishes the sessions of the driver from the sessions of the workers. */
export const DRIVER_NAME = 'chaos-driver'

export async function connectDirectly(url: string): Promise<DirectConnection> {
  return url.startsWith('postgres') ? connectPostgres(url) : connectMysql(url)
}

/** Runs `work` on a connection of its own. */
export async function withDirectConnection<R>(url: string, work: (sql: Sql) => Promise<R>): Promise<R> {
  const connection = await connectDirectly(url)
  try {
    return await work(connection)
  } finally {
    await connection.close()
  }
}

async function connectPostgres(url: string): Promise<DirectConnection> {
  const client = new Client({
    connectionString: url,
    application_name: DRIVER_NAME,
    connectionTimeoutMillis: 5000,
  })
  // The server may be restarted under it: the next statement fails, which is enough.
  client.on('error', () => undefined)
  await client.connect()
  return {
    ...sqlOfPg(client),
    close: () => client.end().catch(() => undefined),
  }
}

async function connectMysql(url: string): Promise<DirectConnection> {
  const connection = await mysql.createConnection({ uri: url, connectTimeout: 5000, supportBigNumbers: true })
  connection.on('error', () => undefined)
  return {
    ...sqlOfMysql(connection),
    close: async () => connection.destroy(),
  }
}
