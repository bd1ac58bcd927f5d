import { Logger, run, runMigrations } from 'graphile-worker'
import type { Pool } from 'pg'
import type { BenchDatabase } from './bench-database.ts'
import { BACKLOG } from './relay-backlog.ts'
import { untilHandled, type QueueWorker } from './queue-variants.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

const SCHEMA = 'peer_graphile_worker'
const TASK = 'order'

/** The batching of the library's performance guide, with the sizes that were fastest here: see bench/README.md. */
const FASTEST = {
  concurrentJobs: 100,
  maxPoolSize: 25,
  localQueue: { size: 2000 },
  completeJobBatchDelay: 25,
  failJobBatchDelay: 25,
}

export interface GraphileSettings {
  /** Runs for each job. @default a function that does nothing */
  readonly handler?: () => unknown
  readonly concurrentJobs?: number
}

const silent = new Logger(() => () => undefined)

/** Graphile Worker: one process fetches jobs in batches into a local queue, and completes them in batches. */
export async function graphileWorkerVariant(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  settings: GraphileSettings = {},
): Promise<DrainVariant<'graphileWorker'>> {
  const table = `${SCHEMA}._private_jobs`
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  await runMigrations({ preset: presetOf(database, {}) })
  return {
    name: 'graphileWorker',
    schema: SCHEMA,
    table,
    messages,
    async fill(pool) {
      // Uses the function of Graphile Worker, without a queue_name: jobs of one queue do not run concurrently.
      await pool.query(
        `select ${SCHEMA}.add_jobs(array(
           select json_populate_record(null::${SCHEMA}.job_spec,
             json_build_object('identifier', '${TASK}', 'payload', convert_from(payload, 'UTF8')::json))
           from ${BACKLOG} order by seq limit ${messages}))`,
      )
    },
    drain: () => untilHandled(messages, graphileWorker(database, settings)),
    left: (pool) => rowsIn(pool, table),
  }
}

export function graphileWorker(
  database: BenchDatabase,
  { handler = () => undefined, ...settings }: GraphileSettings = {},
): QueueWorker {
  return async (onHandled) => {
    const runner = await run({
      preset: presetOf(database, settings),
      noHandleSignals: true,
      taskList: {
        [TASK]: async () => {
          await handler()
          onHandled(1)
        },
      },
    })
    return () => runner.stop()
  }
}

function presetOf(database: BenchDatabase, settings: Omit<GraphileSettings, 'handler'>) {
  return {
    worker: { ...FASTEST, ...settings, connectionString: database.url, schema: SCHEMA, logger: silent },
  }
}
