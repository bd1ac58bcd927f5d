import { Client } from 'pg'
import { isLeftover, newTestDatabaseName } from './test-database-name.ts'

/** Creates a database for a test file. */
export async function createDatabase(serverUrl: string): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = newTestDatabaseName()
  await onServer(serverUrl, (client) => client.query(`create database ${name}`))
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () =>
      onServer(serverUrl, async (client) => {
        await connectionsClosed(client, name)
        await client.query(`drop database if exists ${name} with (force)`)
      }),
  }
}

/**
 * Waits until the connections to a database are closed, for at most half a second. A pool has ended before the server
 * has closed its connections; a connection that `drop database` breaks would then report an error without a listener.
 */
async function connectionsClosed(client: Client, database: string): Promise<void> {
  const deadline = performance.now() + 500
  while (performance.now() < deadline) {
    const { rowCount } = await client.query('select 1 from pg_stat_activity where datname = $1 limit 1', [
      database,
    ])
    if (rowCount === 0) return
  }
}

/** Drops the databases of runs that died, or those that the workers of this run have kept. */
export async function dropLeftovers(serverUrl: string, scope: 'this run' | 'earlier runs'): Promise<void> {
  await onServer(serverUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>('select datname from pg_database')
    for (const { datname } of rows) {
      if (!isLeftover(datname, scope)) continue
      // Another run may be dropping it too, or it belongs to another user, who must drop it.
      await client
        .query(`drop database if exists ${client.escapeIdentifier(datname)} with (force)`)
        .catch(() => null)
    }
  })
}

async function onServer(serverUrl: string, work: (client: Client) => Promise<unknown>): Promise<void> {
  const client = new Client({ connectionString: serverUrl })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
