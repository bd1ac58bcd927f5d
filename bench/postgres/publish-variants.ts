import { crc32 } from 'node:zlib'
import { uuidV7 } from '@txbox/core/internal'
import { createOutbox, type Outbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { Kysely, PostgresDialect, sql } from 'kysely'
import type { ClientBase, Pool } from 'pg'
import type { Variant } from '../measure/interleaved-rates.ts'
import { anyOrder } from '../order-message.ts'
import { transaction } from './transaction.ts'
import { anyAccount, creditStatement } from './workspace.ts'

export type PublishVariantName = keyof typeof PUBLISH_VARIANTS

/**
 * Each variant updates one row and stores one message of 500 bytes, in one transaction. `bare` stores no message. `once`
 * gives the message an id that is remembered for five minutes. `publishPg` notifies as it does by default, `publishSilentPg` never,
 * and `notifyByHandPg` in as many transactions as the default allows in a stream, by one statement.
 */
export const PUBLISH_VARIANTS = {
  bare,
  byHandPg,
  notifyByHandPg,
  publishSilentPg,
  publishPg,
  onceByHandPg,
  publishOncePg,
  publishLockedPg,
  byHandKysely,
  publishKysely,
}

/** `notify: 'auto'` lets 15 transactions of a steady stream notify in each second. */
const NOTIFY_INTERVAL_MS = 1000 / 15

/** Each variant works in the schema of its name. */
export function publishVariant(
  name: PublishVariantName,
  pool: Pool,
): Variant & { readonly name: PublishVariantName } {
  return { name, transaction: PUBLISH_VARIANTS[name](schemaOf(name), pool) }
}

export function schemaOf(name: PublishVariantName): string {
  return `publish_${name.toLowerCase()}`
}

function bare(schema: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(schema)
  return () => transaction(pool, (client) => client.query(credit, [anyAccount()]))
}

function byHandPg(schema: string, pool: Pool): Variant['transaction'] {
  return insertBy(schema, pool, async () => undefined)
}

function notifyByHandPg(schema: string, pool: Pool): Variant['transaction'] {
  let notifiedAt = -Infinity
  return insertBy(schema, pool, async (client) => {
    if (performance.now() - notifiedAt < NOTIFY_INTERVAL_MS) return
    notifiedAt = performance.now()
    await client.query('select pg_notify($1, $2)', [`${schema}_by_hand`, ''])
  })
}

function insertBy(
  schema: string,
  pool: Pool,
  afterwards: (client: ClientBase) => Promise<void>,
): Variant['transaction'] {
  const credit = creditStatement(schema)
  const insert = `
    insert into ${schema}.outbox (shard, id, topic, key, type, content_type, headers, payload)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`
  return () =>
    transaction(pool, async (client) => {
      await client.query(credit, [anyAccount()])
      await client.query(insert, rowByHand())
      await afterwards(client)
    })
}

function publishSilentPg(schema: string, pool: Pool): Variant['transaction'] {
  return publishBy(createOutbox({ database: postgres({ schema }), notify: false }), schema, pool)
}

function publishPg(schema: string, pool: Pool): Variant['transaction'] {
  return publishBy(createOutbox({ database: postgres({ schema }) }), schema, pool)
}

function publishLockedPg(schema: string, pool: Pool): Variant['transaction'] {
  return publishBy(createOutbox({ database: postgres({ schema }), lockKeys: true }), schema, pool)
}

function publishBy(outbox: Outbox, schema: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(schema)
  return () =>
    transaction(pool, async (client) => {
      await client.query(credit, [anyAccount()])
      await outbox.publish(client, anyOrder())
    })
}

function onceByHandPg(schema: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(schema)
  const remember = `
    insert into ${schema}.inbox (consumer, key, processed_at, expires_at, result)
    values ('orders', $1, clock_timestamp(), clock_timestamp() + interval '5 minutes', $2) on conflict do nothing`
  const insert = `
    insert into ${schema}.outbox (shard, id, topic, key, type, content_type, headers, payload)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`
  return () =>
    transaction(pool, async (client) => {
      await client.query(credit, [anyAccount()])
      const row = rowByHand()
      const { rowCount } = await client.query(remember, [uuidV7(), row[1]])
      if (rowCount === 1) await client.query(insert, row)
    })
}

function publishOncePg(schema: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(schema)
  const outbox = createOutbox({ database: postgres({ schema }), deduplication: {} })
  return () =>
    transaction(pool, async (client) => {
      await client.query(credit, [anyAccount()])
      await outbox.publish(client, { ...anyOrder(), deduplicationId: uuidV7() })
    })
}

function byHandKysely(schema: string, pool: Pool): Variant['transaction'] {
  const db = kyselyOn(pool)
  const outbox = sql.table(`${schema}.outbox`)
  const accounts = sql.table(`${schema}.accounts`)
  return () =>
    db.transaction().execute(async (tx) => {
      await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
      await sql`
        insert into ${outbox} (shard, id, topic, key, type, content_type, headers, payload)
        values (${sql.join(rowByHand())})`.execute(tx)
    })
}

function publishKysely(schema: string, pool: Pool): Variant['transaction'] {
  const db = kyselyOn(pool)
  const accounts = sql.table(`${schema}.accounts`)
  const outbox = createOutbox({ database: postgres({ schema }) })
  return () =>
    db.transaction().execute(async (tx) => {
      await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
      await outbox.publish(tx, anyOrder())
    })
}

/** Only the columns that the table requires: a shard, an id and bytes. The others have defaults. */
function rowByHand(): unknown[] {
  const { topic, key, type, payload } = anyOrder()
  const bytes = Buffer.from(JSON.stringify(payload))
  return [crc32(key) % 16, uuidV7(), topic, key, type, 'application/json', '{}', bytes]
}

function kyselyOn(pool: Pool): Kysely<object> {
  return new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
}
