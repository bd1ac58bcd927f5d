import { updateVersioned } from '@txbox/versioning'
import { Kysely, PostgresDialect, sql } from 'kysely'
import type { Pool } from 'pg'
import type { Variant } from '../measure/interleaved-rates.ts'
import { anyAccount } from './workspace.ts'

export type VersioningVariantName = keyof typeof VERSIONING_VARIANTS

/**
 * Each variant updates one row by its key and version in a transaction of Kysely. `bare` is the same UPDATE, written with
 * Kysely. With a root instead of a transaction, `updateVersioned` opens the transaction itself.
 */
export const VERSIONING_VARIANTS = { bare, versioned, onRoot }

/** Each variant works in the schema of its name, and knows the versions of its rows. */
export function versioningVariant(
  name: VersioningVariantName,
  pool: Pool,
): Variant & { readonly name: VersioningVariantName } {
  return { name, transaction: VERSIONING_VARIANTS[name](schemaOf(name), pool) }
}

export function schemaOf(name: VersioningVariantName): string {
  return `versioning_${name.toLowerCase()}`
}

interface Account {
  id: number
  balance: number
  version: number
}

function bare(schema: string, pool: Pool): Variant['transaction'] {
  const { db, table, versionOf, moved } = accountsIn(schema, pool)
  return async () => {
    const id = anyAccount()
    const expected = versionOf(id)
    const { numUpdatedRows } = await db.transaction().execute((tx) =>
      tx
        .updateTable(table)
        .set({ balance: sql<number>`balance + 1`, version: expected + 1 })
        .where('id', '=', id)
        .where('version', '=', expected)
        .executeTakeFirstOrThrow(),
    )
    if (numUpdatedRows !== 1n) throw new Error(`Account ${id} was not at version ${expected}.`)
    moved(id, expected + 1)
  }
}

function versioned(schema: string, pool: Pool): Variant['transaction'] {
  const { db, table, versionOf, moved } = accountsIn(schema, pool)
  return async () => {
    const id = anyAccount()
    const set = { balance: sql<number>`balance + 1` }
    const { version } = await db
      .transaction()
      .execute((tx) => updateVersioned(tx, table, { where: { id }, expected: versionOf(id), set }))
    moved(id, version)
  }
}

function onRoot(schema: string, pool: Pool): Variant['transaction'] {
  const { db, table, versionOf, moved } = accountsIn(schema, pool)
  return async () => {
    const id = anyAccount()
    const set = { balance: sql<number>`balance + 1` }
    const { version } = await updateVersioned(db, table, { where: { id }, expected: versionOf(id), set })
    moved(id, version)
  }
}

function accountsIn(schema: string, pool: Pool) {
  const versions = new Map<number, number>()
  return {
    db: new Kysely<Record<string, Account>>({ dialect: new PostgresDialect({ pool }) }),
    table: `${schema}.accounts`,
    versionOf: (id: number) => versions.get(id) ?? 0,
    moved: (id: number, version: number) => void versions.set(id, version),
  }
}
