import type { Pool } from 'pg'
import { PgBoss } from 'pg-boss'
import type { BenchDatabase } from './bench-database.ts'
import { BACKLOG } from './relay-backlog.ts'
import { untilHandled, type QueueWorker } from './queue-variants.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

const SCHEMA = 'peer_pg_boss'
const QUEUE = 'orders'

/** The settings of the worker, the fastest of those that were tried: see bench/README.md. */
const FASTEST = {
  batchSize: 5000,
  localConcurrency: 2,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
}

/** pg-boss: jobs are fetched and completed in batches, from a queue with its own partition. */
export async function pgBossVariant(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
): Promise<DrainVariant<'pgBoss'>> {
  const jobs = `${SCHEMA}.made_jobs`
  const table = `${SCHEMA}.job`
  await makeJobs(database, pool, jobs, messages)
  return {
    name: 'pgBoss',
    schema: SCHEMA,
    table,
    messages,
    async fill(pool) {
      await pool.query(`insert into ${table} select * from ${jobs}`)
    },
    drain: () => untilHandled(messages, pgBossWorker(database)),
    // Completed jobs stay in the table, and are deleted later.
    left: (pool) => rowsIn(pool, table, "state <> 'completed'"),
  }
}

export function pgBossWorker(database: BenchDatabase): QueueWorker {
  return async (onHandled, onError) => {
    const boss = await started(database, onError)
    await boss.work(QUEUE, FASTEST, async (batch) => onHandled(batch.length))
    return () => boss.stop()
  }
}

/** The transaction of a transactional worker. */
export interface BossTransaction {
  executeSql(text: string, values: unknown[]): Promise<unknown>
}

/** pg-boss: batches whose jobs are completed in the transaction of the handler. */
export async function transactionalPgBossVariant(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  how: {
    readonly batchSize: number
    readonly workers: number
    readonly work: (tx: BossTransaction, jobs: number) => Promise<unknown>
  },
): Promise<DrainVariant<'pgBossBatches'>> {
  const { batchSize, workers, work } = how
  const variant = await pgBossVariant(database, pool, messages)
  return {
    ...variant,
    name: 'pgBossBatches',
    async drain() {
      let published = 0
      const finished = Promise.withResolvers<void>()
      // One connection a worker and some for what is fetched.
      const boss = await started(database, finished.reject, workers + 2)
      const options = { ...FASTEST, batchSize, localConcurrency: workers, transactional: true } as const
      await boss.work(QUEUE, options, async (batch, tx) => {
        await work(tx, batch.length)
        published += batch.length
        if (published >= messages) finished.resolve()
      })
      await finished.promise
      // Stopping waits for the last commits.
      return { published, end: () => boss.stop() }
    },
  }
}

/** Stores the jobs once by the API of pg-boss, which determines what is stored beside the payload. */
async function makeJobs(database: BenchDatabase, pool: Pool, jobs: string, count: number): Promise<void> {
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  const boss = await started(database, () => undefined)
  await boss.createQueue(QUEUE, { partition: true })
  const { rows } = await pool.query<{ payload: string }>(
    `select convert_from(payload, 'UTF8') as payload from ${BACKLOG} order by seq limit ${count}`,
  )
  for (let made = 0; made < count; made += 5000) {
    const some = rows.slice(made, made + 5000)
    await boss.insert(
      QUEUE,
      some.map(({ payload }) => ({ data: JSON.parse(payload) as object })),
    )
  }
  await boss.stop()
  await pool.query(`create table ${jobs} as select * from ${SCHEMA}.job`)
}

/** Maintenance is off, because it would take time from the drain. */
async function started(
  database: BenchDatabase,
  onError: (error: Error) => void,
  max?: number,
): Promise<PgBoss> {
  const boss = new PgBoss({
    connectionString: database.url,
    schema: SCHEMA,
    ...(max === undefined ? {} : { max }),
    supervise: false,
    schedule: false,
  })
  boss.on('error', onError)
  return boss.start()
}
