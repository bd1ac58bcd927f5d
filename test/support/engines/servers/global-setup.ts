import type { TestProject } from 'vitest/node'
import '../provided.ts'
import { galeraServer } from './galera-server.ts'
import { embeddedPostgresServer, postgresServer } from './postgres-server.ts'
import { kafkaServer } from './kafka-server.ts'
import { dropLeftovers as dropMysqlLeftovers, hasSnapshotIsolation } from './mysql-databases.ts'
import { mariadbServer, mysqlServer } from './mysql-server.ts'
import { natsServer } from './nats-server.ts'
import { pgliteServer } from './pglite-server.ts'
import { dropLeftovers } from './postgres-databases.ts'
import { rabbitmqServer } from './rabbitmq-server.ts'
import { serverPrograms } from './server-programs.ts'
import { sqsServer } from './sqs-server.ts'
import { findServer, type FoundServer, type Search, type ServerKind } from './server.ts'

type Leftovers = 'this run' | 'earlier runs'

const searchesKey = Symbol.for('txbox.test.servers')

const kinds: Record<string, ServerKind> = {
  postgres: postgresServer,
  'postgres-embedded': embeddedPostgresServer,
  pglite: pgliteServer,
  mysql: mysqlServer,
  mariadb: mariadbServer,
  galera: galeraServer,
  rabbitmq: rabbitmqServer,
  kafka: kafkaServer,
  nats: natsServer,
  sqs: sqsServer,
  ...serverPrograms,
}

/** Each project loads this module for itself; a server is searched for and started once for all of them. */
const shared = globalThis as { [searchesKey]?: Map<string, Promise<Search>> }
const searches = (shared[searchesKey] ??= new Map())

/** Before the first test of a project: finds its servers, and gives their addresses to the tests. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const { needs } = project.getProvidedContext()
  const servers: Record<string, string> = {}
  const missing: string[] = []
  for (const name of needs) {
    const search = await searchOnce(name)
    if ('found' in search) servers[name] = search.found.url
    else missing.push(search.missing)
  }
  project.provide('servers', servers)
  project.provide('missing', missing)
  const { mariadb } = servers
  project.provide('hasSnapshotIsolation', mariadb !== undefined && (await hasSnapshotIsolation(mariadb)))
  for (const reason of missing) console.warn(`\n  LEFT OUT  project ${project.name}: ${reason}\n`)
  return stopAll
}

function searchOnce(name: string): Promise<Search> {
  const known = searches.get(name)
  if (known !== undefined) return known
  const kind = kinds[name]
  if (kind === undefined)
    throw new Error(`No server is named '${name}'; known: ${Object.keys(kinds).join(', ')}.`)
  const search = findServer(kind).then(async (result) => {
    if (!('found' in result)) return result
    console.log(`${name}: ${result.found.description}`)
    await dropLeftoversOf(name, result.found, 'earlier runs')
    return result
  })
  searches.set(name, search)
  return search
}

/** A server that this run has started takes its databases along. */
async function dropLeftoversOf(name: string, found: FoundServer, scope: Leftovers): Promise<void> {
  if (found.stop !== undefined) return
  if (name === 'postgres') await dropLeftovers(found.url, scope)
  if (name === 'mysql' || name === 'mariadb') await dropMysqlLeftovers(found.url, scope)
}

/** Runs at the end of the run, even if the run failed. Every project calls it; the first call does the work. */
async function stopAll(): Promise<void> {
  const ended = [...searches]
  searches.clear()
  await Promise.all(
    ended.map(async ([name, search]) => {
      const result = await search.catch(() => undefined)
      if (result === undefined || !('found' in result)) return
      await dropLeftoversOf(name, result.found, 'this run')
      await result.found.stop?.()
    }),
  )
}
