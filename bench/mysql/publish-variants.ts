import { crc32 } from 'node:zlib'
import { uuidV7 } from '@txbox/core/internal'
import { mysql } from '@txbox/mysql'
import { createOutbox, type Outbox } from '@txbox/outbox'
import { sql } from 'kysely'
import type { Pool } from 'mysql2/promise'
import type { Variant } from '../measure/interleaved-rates.ts'
import { anyOrder } from '../order-message.ts'
import { kyselyOn } from './kysely-on.ts'
import { transaction } from './transaction.ts'
import { anyAccount, creditStatement } from './workspace.ts'

export type PublishVariantName = keyof typeof PUBLISH_VARIANTS

/**
 * Each variant updates one row and stores one message of 500 bytes, in one transaction. `bare` stores no message. `once`
 * gives the message an id that is remembered for five minutes.
 */
export const PUBLISH_VARIANTS = {
  bare,
  byHandMysql2,
  publishMysql2,
  onceByHandMysql2,
  publishOnceMysql2,
  publishLockedMysql2,
  byHandKysely,
  publishKysely,
}

/** Each variant works under the prefix of its name. */
export function publishVariant(
  name: PublishVariantName,
  pool: Pool,
): Variant & { readonly name: PublishVariantName } {
  return { name, transaction: PUBLISH_VARIANTS[name](prefixOf(name), pool) }
}

export function prefixOf(name: PublishVariantName): string {
  return `publish_${name.toLowerCase()}_`
}

function bare(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  return () => transaction(pool, (connection) => connection.query(credit, [anyAccount()]))
}

function byHandMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  const insert = `
    insert into ${prefix}outbox (shard, id, topic, \`key\`, type, content_type, headers, payload, created_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))`
  return () =>
    transaction(pool, async (connection) => {
      await connection.query(credit, [anyAccount()])
      await connection.query(insert, rowByHand())
    })
}

function publishMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  return publishBy(createOutbox({ database: mysql({ prefix }) }), prefix, pool)
}

function publishLockedMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  return publishBy(createOutbox({ database: mysql({ prefix }), lockKeys: true }), prefix, pool)
}

function publishBy(outbox: Outbox, prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  return () =>
    transaction(pool, async (connection) => {
      await connection.query(credit, [anyAccount()])
      await outbox.publish(connection, anyOrder())
    })
}

function onceByHandMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  const remember = `
    insert into ${prefix}inbox (consumer, \`key\`, processed_at, expires_at, result)
    values ('orders', ?, utc_timestamp(6), utc_timestamp(6) + interval 5 minute, ?)`
  const insert = `
    insert into ${prefix}outbox (shard, id, topic, \`key\`, type, content_type, headers, payload, created_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))`
  return () =>
    transaction(pool, async (connection) => {
      await connection.query(credit, [anyAccount()])
      const row = rowByHand()
      // A duplicate fails here, before the message is stored.
      await connection.query(remember, [uuidV7(), row[1]])
      await connection.query(insert, row)
    })
}

function publishOnceMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  const outbox = createOutbox({ database: mysql({ prefix }), deduplication: {} })
  return () =>
    transaction(pool, async (connection) => {
      await connection.query(credit, [anyAccount()])
      await outbox.publish(connection, { ...anyOrder(), deduplicationId: uuidV7() })
    })
}

function byHandKysely(prefix: string, pool: Pool): Variant['transaction'] {
  const db = kyselyOn(pool)
  const outbox = sql.table(`${prefix}outbox`)
  const accounts = sql.table(`${prefix}accounts`)
  return () =>
    db.transaction().execute(async (tx) => {
      await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
      await sql`
        insert into ${outbox} (shard, id, topic, \`key\`, type, content_type, headers, payload, created_at)
        values (${sql.join(rowByHand())}, utc_timestamp(6))`.execute(tx)
    })
}

function publishKysely(prefix: string, pool: Pool): Variant['transaction'] {
  const db = kyselyOn(pool)
  const accounts = sql.table(`${prefix}accounts`)
  const outbox = createOutbox({ database: mysql({ prefix }) })
  return () =>
    db.transaction().execute(async (tx) => {
      await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
      await outbox.publish(tx, anyOrder())
    })
}

/** Only the columns that the table requires. */
function rowByHand(): unknown[] {
  const { topic, key, type, payload } = anyOrder()
  const bytes = Buffer.from(JSON.stringify(payload))
  return [crc32(key) % 16, uuidV7(), topic, key, type, 'application/json', '{}', bytes]
}
