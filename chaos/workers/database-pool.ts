import type { ConnectedDatabase, Database, Mysql2ConnectionLike, NewMessage, PgClientLike } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createOutbox, type StoredId } from '@txbox/outbox'
import { createQueue, type NewQueueMessage } from '@txbox/queue'
import { CompiledQuery, Kysely, MysqlDialect, PostgresDialect, type Transaction } from 'kysely'
import { createPool as createCallbackPool } from 'mysql2'
import { createPool } from 'mysql2/promise'
import { DatabaseError, Pool } from 'pg'
import type { Engine } from '../database/engine.ts'
import { sqlOfMysql, sqlOfPg, type Sql, type SqlRow } from '../database/sql.ts'
import { LOCAL_CONSUMERS, LOCAL_TYPE, QUEUE, type Change } from './worker-protocol.ts'
import type { Worker } from './worker.ts'

/** How long a worker waits for a connection of its pool, which may have no room, or for the server. */
const CONNECT_TIMEOUT_MS = 3000

function pgPool({ config, name }: Worker, max: number): Pool {
  const pool = new Pool({
    connectionString: config.databaseUrl,
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: name,
  })
  // The connection is gone; the next statement gets another. The pool listens only to connections that are idle, and
  // Kysely to none: without a listener the end of a connection in use would end the process.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

function mysqlSettings({ config }: Worker, connectionLimit: number) {
  const url = new URL(config.databaseUrl)
  if (config.kind === 'relay') url.username = config.slot
  return { uri: url.href, connectionLimit, connectTimeout: CONNECT_TIMEOUT_MS, timezone: 'Z' }
}

/** A database for a relay or a collector, by a pool of the driver itself or by Kysely. */
export function connectedDatabase(worker: Worker, max: number, root: 'driver' | 'kysely') {
  if (root === 'kysely') return kyselyDatabase(worker, max)
  return worker.config.engine === 'postgres'
    ? postgres({ db: pgPool(worker, max) })
    : mysql({ db: createPool(mysqlSettings(worker, max)) })
}

export interface ConsumerTables {
  chaos_effects: { message_id: string; worker: string }
  chaos_applied: { version_key: string; from_version: number; message_id: string }
  chaos_balances: { version_key: string; version: number; total: number }
}

/** A Kysely root, and the database that txbox makes of it. */
export function kyselyDatabase(worker: Worker, max: number) {
  return kyselyRoot(worker, max).database
}

export function kyselyRoot(worker: Worker, max: number) {
  if (worker.config.engine === 'postgres') {
    const db = new Kysely<ConsumerTables>({ dialect: new PostgresDialect({ pool: pgPool(worker, max) }) })
    return { db, database: postgres({ db }) }
  }
  const pool = createCallbackPool(mysqlSettings(worker, max))
  const db = new Kysely<ConsumerTables>({ dialect: new MysqlDialect({ pool }) })
  return { db, database: mysql({ db }) }
}

/** Runs a worker's part with a database of the driver itself or of Kysely, and with SQL in its transactions. */
export interface DatabaseWork {
  <Tx>(database: ConnectedDatabase<Tx>, sqlOf: (tx: Tx) => Sql): Promise<void>
}

/** The pools end with the process. */
export function withDatabase(
  worker: Worker,
  max: number,
  root: 'driver' | 'kysely',
  work: DatabaseWork,
): Promise<void> {
  const { engine } = worker.config
  if (root === 'kysely') {
    const { database } = kyselyRoot(worker, max)
    return work<Transaction<ConsumerTables>>(database, (tx) => sqlOfKysely(tx, engine))
  }
  return engine === 'postgres'
    ? work(postgres({ db: pgPool(worker, max) }), sqlOfPg)
    : work(mysql({ db: createPool(mysqlSettings(worker, max)) }), sqlOfMysql)
}

function sqlOfKysely(tx: Transaction<ConsumerTables>, engine: Engine): Sql {
  return {
    async query(text, values = []) {
      let n = 0
      const numbered = engine === 'postgres' ? text.replaceAll('?', () => `$${(n += 1)}`) : text
      const { rows } = await tx.executeQuery<SqlRow>(CompiledQuery.raw(numbered, [...values]))
      return rows
    },
  }
}

type Published = NewMessage<Change> | readonly NewMessage<Change>[]

/** A message of the local consumers. Most have no topic. */
export type NewLocalMessage = Omit<NewMessage<Change>, 'topic'> & { readonly topic?: string }
type LocalPublished = NewLocalMessage | readonly NewLocalMessage[]

/** The local consumers of each type. */
export const SUBSCRIPTIONS: Readonly<Record<string, readonly string[]>> = { [LOCAL_TYPE]: LOCAL_CONSUMERS }

interface Publishing {
  publish(messages: Published): Promise<void>
  /** Publishes unless a message with the same deduplication id was published. */
  publishOnce(message: NewMessage<Change>): Promise<StoredId>
  /** Locks the key until the transaction ends, and publishes. */
  publishLocked(message: NewMessage<Change>): Promise<void>
  /** Publishes to the local consumers, and to the relay if the message has a topic. */
  publishLocal(messages: LocalPublished): Promise<void>
  /** The same; who subscribes is read from the database. */
  publishRegistered(messages: LocalPublished): Promise<void>
  /** Publishes to the local consumers unless a message with the same deduplication id was published. */
  publishLocalOnce(message: NewLocalMessage): Promise<StoredId>
  /** Sends to the queue. */
  send(messages: NewQueueMessage<Change> | readonly NewQueueMessage<Change>[]): Promise<void>
  /** Sends unless a message with the same deduplication id was sent. */
  sendOnce(message: NewQueueMessage<Change>): Promise<StoredId>
}

/** A transaction of a producer. */
export type ProducerTransaction = Sql & Publishing

/** Runs `work` in a transaction and commits, unless it returns `'rollback'`. Errors are thrown. */
export type Transact = (
  isolation: 'read committed' | 'repeatable read',
  work: (tx: ProducerTransaction) => Promise<'commit' | 'rollback'>,
) => Promise<void>

export function transactor(worker: Worker, max: number): Transact {
  return worker.config.engine === 'postgres' ? postgresTransactor(worker, max) : mysqlTransactor(worker, max)
}

/** One outbox or queue for each way to publish or to send, on one database. */
function publishingBy(options: {
  database: Database
  notify?: boolean
}): (tx: PgClientLike | Mysql2ConnectionLike) => Publishing {
  const plain = createOutbox(options)
  const once = createOutbox({ ...options, deduplication: {} })
  const locked = createOutbox({ ...options, lockKeys: true })
  const local = createOutbox({ ...options, subscriptions: SUBSCRIPTIONS })
  const registered = createOutbox({ ...options, subscriptions: 'registered' })
  const localOnce = createOutbox({ ...options, subscriptions: SUBSCRIPTIONS, deduplication: {} })
  const queue = createQueue<Change>({ ...options, name: QUEUE })
  const queueOnce = createQueue<Change>({ ...options, name: QUEUE, deduplication: {} })
  return (tx) => ({
    publish: async (messages) => void (await plain.publish(tx, messages as never)),
    publishOnce: (message) => once.publish(tx, message),
    publishLocked: async (message) => void (await locked.publish(tx, message)),
    publishLocal: async (messages) => void (await local.publish(tx, messages as never)),
    publishRegistered: async (messages) => void (await registered.publish(tx, messages as never)),
    publishLocalOnce: (message) => localOnce.publish(tx, message),
    send: async (messages) => void (await queue.send(tx, messages as never)),
    sendOnce: (message) => queueOnce.send(tx, message),
  })
}

function postgresTransactor(worker: Worker, max: number): Transact {
  const pool = pgPool(worker, max)
  const publishing = publishingBy({ database: postgres(), notify: true })
  return async (isolation, work) => {
    const client = await pool.connect()
    let failure: Error | undefined
    try {
      await client.query(`begin isolation level ${isolation}`)
      await client.query(await work({ ...sqlOfPg(client), ...publishing(client) }))
    } catch (error) {
      failure = error as Error
      await client.query('rollback').catch((second: unknown) => (failure = second as Error))
      throw error
    } finally {
      // A connection that cannot roll back is not used again.
      client.release(failure !== undefined && !isServerError(failure) ? failure : undefined)
    }
  }
}

function isServerError(error: Error): boolean {
  return error instanceof DatabaseError && error.severity === 'ERROR'
}

function mysqlTransactor(worker: Worker, max: number): Transact {
  const pool = createPool(mysqlSettings(worker, max))
  const publishing = publishingBy({ database: mysql() })
  return async (isolation, work) => {
    const connection = await pool.getConnection()
    try {
      await connection.query(`set transaction isolation level ${isolation}`)
      await connection.query('begin')
      await connection.query(await work({ ...sqlOfMysql(connection), ...publishing(connection) }))
    } catch (error) {
      // The connection is discarded whatever its state is: a new one is cheap.
      connection.destroy()
      throw error
    }
    connection.release()
  }
}
