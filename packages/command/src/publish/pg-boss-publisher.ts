import type { Publisher } from '@txbox/relay'
import { UsageError } from '../failure.ts'
import { loadPackage } from './broker-packages.ts'
import { forwarding } from './forwarding.ts'
import type { PublisherUrl } from './publisher-url.ts'
import { urlOptions } from './url-options.ts'

/** The part of a `PgBoss` that this command uses. */
interface Boss {
  start(): Promise<unknown>
  stop(options: { graceful: boolean }): Promise<void>
  on(event: 'error', listener: (error: unknown) => void): unknown
  insert(name: string, jobs: object[], options?: object): Promise<string[] | null>
  getJobById(name: string, id: string): Promise<unknown>
  schemaVersion(): Promise<number | null>
}
type MakeBoss = () => Boss

const NO_TABLES =
  "its schema, 'pgboss' unless ?schema= names another, has no tables of pg-boss: start a worker first, or run 'npx pg-boss create'"

/** The settings of the `PgBoss` and of the publisher. @param database the URL of the outbox, for `pg-boss:` without a host. */
export function pgBossSettings(url: PublisherUrl, database: string | undefined) {
  const { schema, sslmode, ...options } = urlOptions(url, {
    ...{
      schema: 'text',
      sslmode: 'text',
      data: 'text',
      confirmTimeoutMs: 'number',
      maxMessageBytes: 'number',
    },
  })
  const address = addressOf(url, database)
  const connectionString = sslmode === undefined ? address : `${address}?sslmode=${String(sslmode)}`
  return { options, boss: { connectionString, ...(schema !== undefined && { schema }) } }
}

function addressOf({ href, hosts, path, query }: PublisherUrl, database: string | undefined): string {
  if (hosts.length > 0) return href.replace(/^pg-boss:/i, 'postgres:').replace(/\?.*$/s, '')
  if (path !== '') throw new UsageError('--publisher pg-boss: takes no path without a host')
  if (query.has('sslmode')) throw new UsageError('--publisher pg-boss: takes ?sslmode= with a host only')
  if (database !== undefined && /^postgres(ql)?:/i.test(database)) return database
  throw new UsageError(
    '--publisher pg-boss: is in the PostgreSQL of --database; for another one, give its address: pg-boss://host/database',
  )
}

export async function pgBossPublisher(url: PublisherUrl, database: string | undefined): Promise<Publisher> {
  const { options, boss: settings } = pgBossSettings(url, database)
  const { pgBossPublisher: make } = await loadPackage('@txbox/pg-boss')
  const { PgBoss } = (await loadPackage('pg-boss')) as { readonly PgBoss: new (options: object) => Boss }
  // The relay only inserts: the tables, and the maintenance, are the task of the workers.
  const boss = new StartedBoss(
    () => new PgBoss({ ...settings, max: 4, supervise: false, schedule: false, migrate: false }),
  )
  const publisher = (make as (options: object) => Publisher)({ ...options, boss })
  return forwarding(publisher, {
    close: async () => {
      await publisher.close?.()
      await boss.stop()
    },
  })
}

/** Starts pg-boss when it is first needed, and again if the start has failed: the relay waits meanwhile. */
class StartedBoss {
  readonly #make: MakeBoss
  #started: Promise<Boss> | undefined

  constructor(make: MakeBoss) {
    this.#make = make
  }

  async insert(name: string, jobs: object[], options?: object): Promise<string[] | null> {
    return (await this.#start()).insert(name, jobs, options)
  }

  async getJobById(name: string, id: string): Promise<unknown> {
    return (await this.#start()).getJobById(name, id)
  }

  async schemaVersion(): Promise<number | null> {
    return (await this.#start()).schemaVersion()
  }

  async stop(): Promise<void> {
    const boss = await this.#started?.catch(() => undefined)
    await boss?.stop({ graceful: false })
  }

  #start(): Promise<Boss> {
    this.#started ??= this.#begin().catch((error: unknown) => {
      this.#started = undefined
      throw error
    })
    return this.#started
  }

  async #begin(): Promise<Boss> {
    const boss = this.#make()
    // The calls that fail throw the same errors.
    boss.on('error', () => undefined)
    try {
      await boss.start()
      return boss
    } catch (error) {
      await boss.stop({ graceful: false }).catch(() => undefined)
      throw hasNoTables(error) ? new Error(NO_TABLES, { cause: error }) : error
    }
  }
}

/** The client's own words could be taken for a missing package. */
function hasNoTables(error: unknown): boolean {
  return error instanceof Error && error.message === 'pg-boss is not installed'
}
