import { randomUUID } from 'node:crypto'
import { Pool } from 'pg'
import { PgBoss, type ConstructorOptions, type JobWithMetadata, type Queue } from 'pg-boss'
import { afterAll, beforeAll, inject } from 'vitest'
import '../support/engines/provided.ts'
import { createDatabase } from '../support/engines/servers/postgres-databases.ts'

/** A real pg-boss in a database of the test file. */
export class PgBossUnderTest {
  #database: { readonly url: string; readonly drop: () => Promise<void> } | undefined
  #boss: PgBoss | undefined
  #pool: Pool | undefined
  readonly #others: PgBoss[] = []

  get url(): string {
    return this.#database!.url
  }

  get address(): { readonly host: string; readonly port: number } {
    const { hostname, port } = new URL(this.url)
    return { host: hostname, port: Number(port === '' ? 5432 : port) }
  }

  get boss(): PgBoss {
    return this.#boss!
  }

  get pool(): Pool {
    return this.#pool!
  }

  async start(): Promise<void> {
    this.#database = await createDatabase(inject('servers')['postgres']!)
    this.#pool = new Pool({ connectionString: this.url, max: 2 })
    this.#boss = await this.open()
  }

  async stop(): Promise<void> {
    for (const boss of this.#others) await boss.stop({ graceful: false })
    await this.#pool?.end()
    await this.#database?.drop()
  }

  /** A started pg-boss that does nothing by itself, at another address of the database if one is given. */
  async open(
    address?: { readonly host: string; readonly port: number },
    options: ConstructorOptions = {},
  ): Promise<PgBoss> {
    const url = new URL(this.url)
    if (address !== undefined) {
      url.hostname = address.host
      url.port = String(address.port)
    }
    const boss = new PgBoss({
      ...{ connectionString: url.href, max: 4, connectionTimeoutMillis: 1000 },
      ...{ supervise: false, schedule: false, migrate: true },
      ...options,
    })
    boss.on('error', () => undefined)
    await boss.start()
    this.#others.push(boss)
    return boss
  }

  async queue(options: Omit<Queue, 'name'> = {}): Promise<string> {
    const name = `queue-${randomUUID()}`
    await this.boss.createQueue(name, options)
    return name
  }

  /** Takes all jobs of a queue, in the order in which workers that take one job at a time would. */
  async take(queue: string): Promise<JobWithMetadata<Record<string, unknown>>[]> {
    const { rows } = await this.pool.query<{ id: string }>(
      'select id from pgboss.job where name = $1 order by priority desc, created_on, id',
      [queue],
    )
    const places = new Map(rows.map(({ id }, place) => [id, place]))
    const jobs: JobWithMetadata<Record<string, unknown>>[] = []
    for (;;) {
      const more = await this.boss.fetch<Record<string, unknown>>(queue, {
        batchSize: 1000,
        includeMetadata: true,
      })
      if (more.length === 0) return jobs.toSorted((a, b) => places.get(a.id)! - places.get(b.id)!)
      jobs.push(...more)
    }
  }
}

export function usePgBoss(): PgBossUnderTest {
  const subject = new PgBossUnderTest()
  beforeAll(() => subject.start(), 60_000)
  afterAll(() => subject.stop())
  return subject
}

/** The payload of an envelope, as bytes. */
export function payloadOf(data: Readonly<Record<string, unknown>>): Uint8Array {
  const { payload, payloadBase64 } = data
  return typeof payloadBase64 === 'string'
    ? Buffer.from(payloadBase64, 'base64')
    : Buffer.from(JSON.stringify(payload))
}
