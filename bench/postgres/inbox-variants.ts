import { days, type AnyMessage } from '@txbox/core'
import { uuidV7 } from '@txbox/core/internal'
import { createInbox, type InboxOutcome } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { Kysely, PostgresDialect, sql } from 'kysely'
import type { Pool } from 'pg'
import type { Variant } from '../measure/interleaved-rates.ts'
import { transaction } from './transaction.ts'
import { anyAccount, creditStatement } from './workspace.ts'

export interface Pools {
  readonly plain: Pool
  readonly pipelined: Pool
}

export type InboxVariantName = keyof typeof INBOX_VARIANTS

/** Each variant handles one new message in one transaction: a claim, and an update of one row. `bare` does not claim. */
export const INBOX_VARIANTS = {
  bare,
  byHandPg,
  processPg,
  byHandKysely,
  processKysely,
  byHandPipelined,
  runPipelined,
}

/** Each variant works in the schema of its name. */
export function inboxVariant(
  name: InboxVariantName,
  pools: Pools,
): Variant & { readonly name: InboxVariantName } {
  return { name, transaction: INBOX_VARIANTS[name](schemaOf(name), pools) }
}

export function schemaOf(name: InboxVariantName): string {
  return `inbox_${name.toLowerCase()}`
}

function bare(schema: string, { plain }: Pools): Variant['transaction'] {
  const credit = creditStatement(schema)
  return () => transaction(plain, (client) => client.query(credit, [anyAccount()]))
}

function byHandPg(schema: string, { plain }: Pools): Variant['transaction'] {
  const credit = creditStatement(schema)
  const claim = claimByHand(schema)
  return () =>
    transaction(plain, async (client) => {
      const message = nextMessage()
      const { rowCount } = await client.query(claim, ['billing', message.id])
      if (rowCount === 0) return
      await client.query(credit, [anyAccount()])
    })
}

/** A claim by hand: the delivery whose INSERT returns a row is the first one. */
function claimByHand(schema: string): string {
  return `
    insert into ${schema}.inbox (consumer, key, processed_at, expires_at)
    values ($1, $2, now(), now() + interval '7 days')
    on conflict (consumer, key) do nothing
    returning processed_at`
}

function processPg(schema: string, { plain }: Pools): Variant['transaction'] {
  const credit = creditStatement(schema)
  const inbox = createInbox({ database: postgres({ schema }), consumer: 'billing', retentionMs: days(7) })
  return () =>
    transaction(plain, async (client) => {
      mustBeProcessed(
        await inbox.process(client, nextMessage(), async (tx) => {
          await tx.query(credit, [anyAccount()])
        }),
      )
    })
}

function byHandKysely(schema: string, { plain }: Pools): Variant['transaction'] {
  const db = kyselyOn(plain)
  const inbox = sql.table(`${schema}.inbox`)
  const accounts = sql.table(`${schema}.accounts`)
  return () =>
    db.transaction().execute(async (tx) => {
      const message = nextMessage()
      const { rows } = await sql`
        insert into ${inbox} (consumer, key, processed_at, expires_at)
        values (${'billing'}, ${message.id}, now(), now() + interval '7 days')
        on conflict (consumer, key) do nothing
        returning processed_at`.execute(tx)
      if (rows.length === 0) return
      await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
    })
}

function processKysely(schema: string, { plain }: Pools): Variant['transaction'] {
  const db = kyselyOn(plain)
  const accounts = sql.table(`${schema}.accounts`)
  const inbox = createInbox({ database: postgres({ schema }), consumer: 'billing', retentionMs: days(7) })
  return () =>
    db.transaction().execute(async (tx) => {
      mustBeProcessed(
        await inbox.process(tx, nextMessage(), async (tx) => {
          await sql`update ${accounts} set balance = balance + 1 where id = ${anyAccount()}`.execute(tx)
        }),
      )
    })
}

/** Sends BEGIN and the claim in one round trip, to measure the effect of this technique alone. */
function byHandPipelined(schema: string, { pipelined }: Pools): Variant['transaction'] {
  const credit = creditStatement(schema)
  const claim = claimByHand(schema)
  return async () => {
    const client = await pipelined.connect()
    try {
      const [, { rowCount }] = await Promise.all([
        client.query('BEGIN'),
        client.query(claim, ['billing', nextMessage().id]),
      ])
      if (rowCount === 1) await client.query(credit, [anyAccount()])
      await client.query('COMMIT')
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    } finally {
      client.release()
    }
  }
}

function runPipelined(schema: string, { pipelined }: Pools): Variant['transaction'] {
  const credit = creditStatement(schema)
  const database = postgres({ db: pipelined, schema })
  const inbox = createInbox({ database, consumer: 'billing', retentionMs: days(7) })
  return async () => {
    mustBeProcessed(
      await inbox.run(nextMessage(), async (tx) => {
        await tx.query(credit, [anyAccount()])
      }),
    )
  }
}

/** Other variants share the pool, so that destroying this Kysely does not end it. */
function kyselyOn(pool: Pool): Kysely<object> {
  return new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
}

/** All variants use time-ordered ids: random ids would measure the index and not the inbox. */
function nextMessage(): AnyMessage {
  return { id: uuidV7() }
}

function mustBeProcessed(outcome: InboxOutcome): void {
  if (outcome.status !== 'processed') throw new Error(`A new message came out as '${outcome.status}'.`)
}
