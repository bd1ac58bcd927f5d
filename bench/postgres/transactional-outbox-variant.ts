import { setTimeout as pause } from 'node:timers/promises'
import type { Pool } from 'pg'
import { DatabaseSetup, getDisabledLogger, initializePollingMessageListener } from 'pg-transactional-outbox'
import type { BenchDatabase } from './bench-database.ts'
import { BACKLOG } from './relay-backlog.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

const SCHEMA = 'peer_transactional_outbox'
const TABLE = 'outbox'
const NEXT_MESSAGES = 'next_outbox_messages'

/** The batch size, from the first call on: see bench/README.md. */
const BATCH = 1000
/** The library handles each message in its own transaction. */
const HANDLER_CONNECTIONS = 20

/** pg-transactional-outbox, which polls and may publish messages concurrently. */
export async function transactionalOutboxVariant(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
): Promise<DrainVariant<'transactionalOutbox'>> {
  const table = `${SCHEMA}.${TABLE}`
  const left = (pool: Pool): Promise<number> => rowsIn(pool, table, 'processed_at is null')
  await createTables(database, pool)
  return {
    name: 'transactionalOutbox',
    schema: SCHEMA,
    table,
    messages,
    async fill(pool) {
      await pool.query(
        `insert into ${table} (id, aggregate_type, aggregate_id, message_type, concurrency, payload)
         select id::uuid, topic, key, type, 'parallel', convert_from(payload, 'UTF8')::jsonb
         from ${BACKLOG} order by seq limit ${messages}`,
      )
    },
    async drain() {
      let published = 0
      const finished = Promise.withResolvers<void>()
      const handler = {
        handle: async () => {
          if (++published === messages) finished.resolve()
        },
      }
      const [shutdown] = initializePollingMessageListener(
        {
          outboxOrInbox: 'outbox',
          dbListenerConfig: { connectionString: database.url },
          // The library creates a pool from this configuration.
          dbHandlerConfig: { connectionString: database.url, max: HANDLER_CONNECTIONS } as object,
          settings: {
            dbSchema: SCHEMA,
            dbTable: TABLE,
            nextMessagesFunctionSchema: SCHEMA,
            nextMessagesFunctionName: NEXT_MESSAGES,
            nextMessagesBatchSize: BATCH,
            nextMessagesPollingIntervalInMs: 10,
            nextMessagesLockInMs: 60_000,
            enableMaxAttemptsProtection: false,
            enablePoisonousMessageProtection: false,
          },
        },
        handler,
        getDisabledLogger(),
        // The default strategy begins with a thousand batches of one message.
        { batchSizeStrategy: async () => BATCH },
      )
      await finished.promise
      return {
        published,
        async end() {
          while ((await left(pool)) > 0) await pause(10)
          await shutdown()
        },
      }
    },
    left,
  }
}

async function createTables(database: BenchDatabase, pool: Pool): Promise<void> {
  const settings = {
    outboxOrInbox: 'outbox',
    database: database.name,
    schema: SCHEMA,
    table: TABLE,
    listenerRole: 'current_user',
    nextMessagesName: NEXT_MESSAGES,
  } as const
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  await pool.query(DatabaseSetup.dropAndCreateTable(settings))
  await pool.query(DatabaseSetup.createPollingFunction(settings))
  await pool.query(DatabaseSetup.setupPollingIndexes(settings))
}
