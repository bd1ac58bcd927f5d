import { createConsumer, type Source } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { createVersioning, stateMachine } from '@txbox/versioning/sql'
import type { Pool, PoolClient } from 'pg'
import { assertType, type Same } from './same.ts'

interface Tables {
  seats: {
    row: string
    place: number
    state: 'free' | 'held' | 'sold'
    holder: string | null
    tags: string[]
    version: number
    changed_at: Date
  }
  /** Its version has another name. */
  halls: { id: number; seats: number; revision: string }
}
declare const pool: Pool
declare const tx: PoolClient
const database = postgres({ db: pool })
const typed = createVersioning<Tables>({ database })
const untyped = createVersioning({ database: postgres() })
const where = { row: 'A', place: 1 }
const machine = stateMachine({ free: ['held'], held: ['sold'], sold: [] })

export async function typedTables(): Promise<void> {
  const byNumber = await typed.updateVersioned(tx, 'seats', {
    where,
    expected: 3,
    set: { state: 'held', tags: ['a'], holder: null },
  })
  assertType<Same<typeof byNumber, { version: number }>>()
  const byText = await typed.applyVersion(tx, 'halls', {
    ...{ where: { id: 1 }, versionColumn: 'revision', from: '3', to: '9', set: { seats: 1 } },
  } as const)
  assertType<Same<typeof byText, { status: 'applied' | 'stale'; version: string }>>()
  const merged = await typed.updateMerged(pool, 'seats', {
    where,
    merge: ({ tags }) => ({ tags: [...tags, 'b'] }),
  })
  assertType<Same<typeof merged, { version: number; attempts: number }>>()
  await typed.deleteVersioned(tx, 'seats', { where, expected: 3n })
  await typed.transition(tx, 'seats', { where, column: 'state', to: 'held', machine })
  await typed.applyIfNewer(tx, 'seats', {
    ...{ where, column: 'changed_at', at: new Date(), set: { holder: 'x' } },
    insert: { state: 'free', version: 1 },
  })

  // @ts-expect-error -- there is no such table
  await typed.updateVersioned(tx, 'seat', { where, expected: 3, set: {} })
  // @ts-expect-error -- there is no such column
  await typed.updateVersioned(tx, 'seats', { where: { rows: 'A' }, expected: 3, set: {} })
  // @ts-expect-error -- a wrong value
  await typed.updateVersioned(tx, 'seats', { where, expected: 3, set: { state: 'gone' } })
  // @ts-expect-error -- txbox writes the version
  await typed.updateVersioned(tx, 'seats', { where, expected: 3, set: { version: 4 } })
  // @ts-expect-error -- the version column must be named
  await typed.updateVersioned(tx, 'halls', { where: { id: 1 }, expected: '3', set: {} })
  // @ts-expect-error -- versions of two types
  await typed.applyVersion(tx, 'seats', { where, from: 3, to: '4', set: {} })
  // @ts-expect-error -- a pool is no transaction
  await typed.updateVersioned(pool, 'seats', { where, expected: 3, set: {} })
  // @ts-expect-error -- not a column of a time
  await typed.applyIfNewer(tx, 'seats', { where, column: 'place', at: new Date(), set: {} })
}

export async function untypedTables(): Promise<void> {
  const { version } = await untyped.updateVersioned(tx, 'anything', {
    where: { id: 'a' },
    expected: 3n,
    versionColumn: 'rev',
    set: { doc: { a: 1 }, at: new Date(), bytes: new Uint8Array() },
  })
  assertType<Same<typeof version, bigint>>()
  await untyped.updateMerged(pool, 'anything', {
    where: { id: 'a' },
    merge: (row: { words: number }) => ({ words: row.words + 1 }),
  })
  // @ts-expect-error -- a pool is no transaction
  await untyped.deleteVersioned(pool, 'anything', { where: { id: 'a' }, expected: 1 })
}

export function guards(source: Source<{ row: string; version: number }>): void {
  createConsumer({
    source,
    inbox: createInbox({ database, consumer: 'seats' }),
    guard: typed.versionGuard<{ row: string; version: number }>({
      table: 'seats',
      where: ({ payload }) => ({ row: payload.row, place: 1 }),
      version: ({ payload }) => payload.version,
      insert: () => ({ state: 'free', holder: null }),
    }),
    handler: (_, { payload }) => void payload,
  })
  typed.versionGuard({
    table: 'seats',
    // @ts-expect-error -- there is no such column
    where: () => ({ rows: 'A' }),
    version: () => 1,
  })
}
