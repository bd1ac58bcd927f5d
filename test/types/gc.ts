import {
  createGarbageCollector,
  scheduleWithPgBoss,
  type Collected,
  type GarbageCollectorEvents,
  type PgBossLike,
} from '@txbox/gc'
import * as onMysql from '@txbox/mysql'
import { migrationProvider, pendingMigrations, postgres } from '@txbox/postgres'
import type { Kysely } from 'kysely'
import type { MigrationProvider } from 'kysely/migration'
import type { Pool } from 'pg'
import { assertType, type Same } from './same.ts'

declare const db: Kysely<{ seats: { row: string } }>
declare const pool: Pool
declare const unknownRoot: object
declare const boss: PgBossLike
declare const stopping: AbortSignal

export async function collectors(): Promise<void> {
  const gc = createGarbageCollector({
    database: postgres({ db: pool }),
    batchSize: undefined,
    intervalMs: 5000,
    deadLetterRetentionMs: Infinity,
    signal: stopping,
  })
  const collected = await gc.runOnce({ signal: undefined, onProgress: ({ inbox }) => void inbox.toFixed() })
  assertType<Same<typeof collected, Collected>>()
  const off = gc.on('error', (event) => assertType<Same<typeof event, GarbageCollectorEvents['error']>>())
  off()
  await gc.start()
  await gc.stop({ timeoutMs: undefined })
  await scheduleWithPgBoss(boss, gc, '* * * * *', { timeZone: 'Europe/Berlin' })
  // @ts-expect-error a collector needs connections of its own
  createGarbageCollector({ database: postgres() })
  // @ts-expect-error no such event
  gc.on('swept', () => {})
  // @ts-expect-error a pool is no pg-boss
  await scheduleWithPgBoss(pool, gc, '* * * * *')
}

export async function migrations(): Promise<void> {
  const provider: MigrationProvider = migrationProvider({ schema: undefined })
  const other: MigrationProvider = onMysql.migrationProvider({ prefix: 'messaging_' })
  const [pending] = await pendingMigrations(db, { schema: 'messaging' })
  assertType<Same<typeof pending, { readonly name: string; readonly sql: string } | undefined>>()
  // @ts-expect-error a database instead of its `db`
  await onMysql.migrate(onMysql.mysql({ db }))
  // @ts-expect-error a database instead of its `db`
  await pendingMigrations(postgres({ db: pool }), {})
  // A root of the caller's own library, whose type says nothing.
  await onMysql.migrate(unknownRoot)
  await Promise.all([provider, other].map((one) => one.getMigrations()))
}
