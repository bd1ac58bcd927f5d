import { days, type AnyMessage } from '@txbox/core'
import { uuidV7 } from '@txbox/core/internal'
import { createInbox, type InboxOutcome } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { sql } from 'kysely'
import type { Pool } from 'mysql2/promise'
import type { Variant } from '../measure/interleaved-rates.ts'
import { kyselyOn } from './kysely-on.ts'
import { transaction } from './transaction.ts'
import { anyAccount, creditStatement } from './workspace.ts'

export type InboxVariantName = keyof typeof INBOX_VARIANTS

/** Each variant handles one new message in one transaction: a claim, and an update of one row. `bare` does not claim. */
export const INBOX_VARIANTS = { bare, byHandMysql2, processMysql2, byHandKysely, processKysely }

/** Each variant works under the prefix of its name. */
export function inboxVariant(
  name: InboxVariantName,
  pool: Pool,
): Variant & { readonly name: InboxVariantName } {
  return { name, transaction: INBOX_VARIANTS[name](prefixOf(name), pool) }
}

export function prefixOf(name: InboxVariantName): string {
  return `inbox_${name.toLowerCase()}_`
}

/** The error of the server for a key that exists already. */
const DUPLICATE = 1062

function bare(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  return () => transaction(pool, (connection) => connection.query(credit, [anyAccount()]))
}

/** A claim by hand: a plain INSERT, which fails for a duplicate. */
function byHandMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  const claim = `
    insert into ${prefix}inbox (consumer, \`key\`, processed_at, expires_at)
    values (?, ?, utc_timestamp(6), utc_timestamp(6) + interval 7 day)`
  return () =>
    transaction(pool, async (connection) => {
      const message = nextMessage()
      try {
        await connection.query(claim, ['billing', message.id])
      } catch (error) {
        if (Reflect.get(error as object, 'errno') === DUPLICATE) return
        throw error
      }
      await connection.query(credit, [anyAccount()])
    })
}

function processMysql2(prefix: string, pool: Pool): Variant['transaction'] {
  const credit = creditStatement(prefix)
  const inbox = createInbox({ database: mysql({ prefix }), consumer: 'billing', retentionMs: days(7) })
  return () =>
    transaction(pool, async (connection) => {
      mustBeProcessed(
        await inbox.process(connection, nextMessage(), async (tx) => {
          await tx.query(credit, [anyAccount()])
        }),
      )
    })
}

function byHandKysely(prefix: string, pool: Pool): Variant['transaction'] {
  const db = kyselyOn(pool)
  const inbox = sql.table(`${prefix}inbox`)
  const accounts = sql.table(`${prefix}accounts`)
  return () =>
    db.transaction().execute(async (tx) => {
      const message = nextMessage()
      try {
        await sql`
          insert into ${inbox} (consumer, \`key\`, processed_at, expires_at)
          values (${'billing'}, ${message.id}, utc_timestamp(6), utc_timestamp(6) + interval 7 day)`.execute(
          tx,
        )
      } catch (error) {
        if (Reflect.get(error as object, 'errno') === DUPLICATE) return
        throw error
      }
      await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
    })
}

function processKysely(prefix: string, pool: Pool): Variant['transaction'] {
  const db = kyselyOn(pool)
  const accounts = sql.table(`${prefix}accounts`)
  const inbox = createInbox({ database: mysql({ prefix }), consumer: 'billing', retentionMs: days(7) })
  return () =>
    db.transaction().execute(async (tx) => {
      mustBeProcessed(
        await inbox.process(tx, nextMessage(), async (tx) => {
          await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
        }),
      )
    })
}

/** All variants use time-ordered ids: random ids would measure the index and not the inbox. */
function nextMessage(): AnyMessage {
  return { id: uuidV7() }
}

function mustBeProcessed(outcome: InboxOutcome): void {
  if (outcome.status !== 'processed') throw new Error(`A new message came out as '${outcome.status}'.`)
}
