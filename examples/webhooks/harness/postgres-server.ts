import { Client } from 'pg'
import { urlOfDatabase, type DatabaseServer } from './database-server.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'

/** The PostgreSQL at this address, or a server that is started for the demo. */
export async function postgresServer(given: string | undefined): Promise<DatabaseServer> {
  if (given !== undefined && !/^postgres(ql)?:$/.test(URL.parse(given)?.protocol ?? '')) {
    throw new Error('it is not of the form postgres://user:password@host:5432/database')
  }
  const { url, origin, stop } =
    given === undefined
      ? { ...(await startEmbeddedPostgres()), origin: 'started for this run in a temporary folder' }
      : { url: given, origin: 'from DATABASE_URL', stop: async () => {} }
  return {
    description: `PostgreSQL ${await versionOf(url)}, ${origin}`,
    async createDatabase(name) {
      await onServer(url, (client) => client.query(`create database ${name}`))
      return urlOfDatabase(url, name)
    },
    async dropDatabase(name) {
      await onServer(url, (client) => client.query(`drop database if exists ${name} with (force)`))
    },
    stop,
  }
}

function versionOf(url: string): Promise<string> {
  return onServer(url, async (client) => {
    const { rows } = await client.query<{ version: string }>(
      `select current_setting('server_version') as version`,
    )
    return `${rows[0]?.version.split(' ')[0]} at ${client.host}:${client.port}`
  })
}

async function onServer<R>(url: string, work: (client: Client) => Promise<R>): Promise<R> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
