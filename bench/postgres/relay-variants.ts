import { migrate, postgres } from '@txbox/postgres'
import { createRelay, type Publisher } from '@txbox/relay'
import type { Pool } from 'pg'
import type { BenchDatabase } from './bench-database.ts'
import { BACKLOG } from './relay-backlog.ts'
import { relayByHand, type HandClient, type HandRow, type HandTable } from './relay-by-hand.ts'
import { rowsIn, type DrainVariant } from './relay-drains.ts'

const ACCEPTED = { status: 'accepted' } as const

/** A publisher that accepts all messages and does nothing, so that only the relay is measured. */
export const idlePublisher: Publisher = { publish: async (messages) => messages.map(() => ACCEPTED) }
export const idleOrderedPublisher: Publisher = { ...idlePublisher, ordering: 'per-key' }

/** The client of a loop that publishes to nobody. */
const NOBODY: HandClient = { publish: async () => undefined, close: async () => undefined }

/** A relay by hand, with a new client for each drain. A client that publishes needs a table of whole messages. */
export async function handVariant<N extends string>(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  name: N,
  hand: HandTable,
  connect: () => Promise<HandClient> = async () => NOBODY,
): Promise<DrainVariant<N>> {
  const schema = `relay_${name.toLowerCase()}`
  const table = `${schema}.outbox`
  await pool.query(`drop schema if exists ${schema} cascade`)
  await pool.query(`create schema ${schema}`)
  await pool.query(hand.create(table))
  return {
    name,
    schema,
    table,
    messages,
    async fill(pool) {
      await pool.query(
        `insert into ${table} (${hand.columns.join(', ')}) select ${hand.values.join(', ')} from ${BACKLOG} order by seq`,
      )
    },
    async drain() {
      const client = database.client()
      await client.connect()
      const broker = await connect()
      const published = await relayByHand(client, table, hand, (rows) =>
        broker.publish(rows as readonly HandRow[]),
      )
      return {
        published,
        async end() {
          await broker.close()
          await client.end()
        },
      }
    },
    left: (pool) => rowsIn(pool, table),
  }
}

/** `relay.drain()`, with a new publisher for each drain. */
export async function txboxVariant<N extends string>(
  database: BenchDatabase,
  pool: Pool,
  messages: number,
  name: N,
  publisher: () => Publisher,
): Promise<DrainVariant<N>> {
  const schema = `relay_${name.toLowerCase()}`
  const table = `${schema}.outbox`
  const columns = 'created_at, shard, id, topic, key, type, content_type, headers, payload'
  await pool.query(`drop schema if exists ${schema} cascade`)
  await migrate(pool, { schema })
  return {
    name,
    schema,
    table,
    messages,
    async fill(pool) {
      await pool.query(
        `insert into ${table} (${columns}) select ${columns} from ${BACKLOG} order by seq limit ${messages}`,
      )
    },
    async drain() {
      const own = database.pool({ max: 6 })
      const relay = createRelay({ database: postgres({ db: own, schema }), publisher: publisher() })
      const { published } = await relay.drain()
      return {
        published,
        async end() {
          await relay.stop()
          await database.close(own)
        },
      }
    },
    left: (pool) => rowsIn(pool, table),
  }
}
