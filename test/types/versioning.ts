import { createConsumer, type Source } from '@txbox/consumer'
import { createInbox, type InboxMessage } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import {
  applyIfNewer,
  applyVersion,
  createVersionBuffer,
  deleteVersioned,
  retryOnConflict,
  stateMachine,
  transition,
  updateMerged,
  updateVersioned,
  versionGuard,
  type StateMachine,
  type VersionBuffer,
  type VersionedMessage,
} from '@txbox/versioning'
import {
  sql,
  type ColumnType,
  type ControlledTransaction,
  type Generated,
  type Kysely,
  type Transaction,
} from 'kysely'
import { assertType, type Same } from './same.ts'

interface Tables {
  seats: {
    row: string
    place: number
    state: 'free' | 'held' | 'sold'
    holder: string | null
    version: Generated<number>
    changed_at: ColumnType<Date, string, string>
  }
  /** Its version has another name. */
  halls: { id: number; seats: number; revision: ColumnType<string, string | bigint, string | bigint> }
  /** Nothing in it can be a version or a time. */
  flags: { id: boolean; on: boolean }
}
declare const trx: Transaction<Tables>
declare const controlled: ControlledTransaction<Tables, ['before']>
declare const db: Kysely<Tables>

export async function versions(): Promise<void> {
  const where = { row: 'A', place: 1 }
  const byNumber = await updateVersioned(trx, 'seats', { where, expected: 3, set: { state: 'held' } })
  assertType<Same<typeof byNumber, { version: number }>>()
  const byText = await updateVersioned(db, 'halls', {
    where: { id: 1 },
    versionColumn: 'revision',
    expected: '3',
    set: { seats: (eb) => eb('seats', '+', 1) },
  })
  assertType<Same<typeof byText, { version: string }>>()
  const big = { where: { id: 1 }, versionColumn: 'revision', from: 3n, to: 9n, set: {} } as const
  const applied = await applyVersion(controlled, 'halls', big)
  assertType<Same<typeof applied, { status: 'applied' | 'stale'; version: bigint }>>()
  await deleteVersioned(trx, 'seats', { where, expected: 3 })
  await updateVersioned(trx, 'seats', {
    where,
    versionColumn: 'place',
    expected: 3,
    set: { holder: sql<null>`null` },
  })

  // @ts-expect-error an array is no value of a column
  await updateVersioned(trx, 'seats', { where: { row: ['A'] }, expected: 3, set: {} })
  // @ts-expect-error null names no row
  await updateVersioned(trx, 'seats', { where: { row: null }, expected: 3, set: {} })
  const hall = { where: { id: 1 }, versionColumn: 'revision', expected: 1n } as const
  // @ts-expect-error the version column is ours, whatever its name
  await updateVersioned(trx, 'halls', { ...hall, set: { revision: 2n } })
  // @ts-expect-error a column that holds no version
  await updateVersioned(trx, 'flags', { where: { id: true }, versionColumn: 'on', expected: 1, set: {} })
  // @ts-expect-error a typo
  await deleteVersioned(trx, 'seats', { where, expect: 3 })
  // @ts-expect-error a deletion sets nothing
  await deleteVersioned(trx, 'seats', { where, expected: 3, set: {} })
  // @ts-expect-error no version is a Date
  await updateVersioned(trx, 'seats', { where, expected: new Date(), set: {} })
}

export async function times(): Promise<void> {
  const where = { row: 'A', place: 1 }
  const outcome = await applyIfNewer(trx, 'seats', {
    where,
    column: 'changed_at',
    at: new Date(),
    set: { state: 'free' },
    insert: { ...where, state: 'free', holder: null, changed_at: '' },
    maxAheadMs: undefined,
  })
  assertType<Same<typeof outcome, { status: 'applied' | 'stale' }>>()
  const change = { where, column: 'changed_at', at: new Date(), set: {} } as const
  // @ts-expect-error the row to insert lacks columns
  await applyIfNewer(trx, 'seats', { ...change, insert: { row: 'A' } })
  // @ts-expect-error the column of the time is ours
  await applyIfNewer(trx, 'seats', { where, column: 'changed_at', at: new Date(), set: { changed_at: '' } })
  // @ts-expect-error no time
  await applyIfNewer(trx, 'seats', { where, column: 'place', at: new Date(), set: {} })
}

export async function states(): Promise<void> {
  const machine = stateMachine({ free: ['held'], held: ['free', 'sold'], sold: [] })
  assertType<Same<typeof machine, StateMachine<'free' | 'held' | 'sold'>>>()
  const where = { row: 'A', place: 1 }
  const outcome = await transition(trx, 'seats', {
    where,
    column: 'state',
    to: 'sold',
    machine,
    set: { holder: 'me' },
  })
  assertType<Same<typeof outcome, { status: 'applied' | 'already' }>>()
  // @ts-expect-error a machine that lacks a state of the column
  await transition(trx, 'seats', { where, column: 'state', to: 'sold', machine: stateMachine({ sold: [] }) })
  // @ts-expect-error the column of the state is ours
  await transition(trx, 'seats', { where, column: 'state', to: 'sold', machine, set: { state: 'sold' } })
}

export async function merges(): Promise<void> {
  const merged = await updateMerged(db, 'halls', {
    where: { id: 1 },
    versionColumn: 'revision',
    attempts: 5,
    merge: async (row) => {
      assertType<Same<typeof row.seats, number>>()
      return { seats: row.seats + 1 }
    },
  })
  assertType<Same<typeof merged, { version: string; attempts: number }>>()
  // @ts-expect-error merge returns what the table does not have
  await updateMerged(db, 'seats', { where: { row: 'A' }, merge: () => ({ chair: 1 }) })
  const read = await retryOnConflict(async (attempt) => attempt, { attempts: undefined, signal: undefined })
  assertType<Same<typeof read, number>>()
}

export async function buffers(message: InboxMessage<{ hall: string; revision: number }>): Promise<void> {
  const database = postgres({ db })
  const buffer = createVersionBuffer({
    database,
    consumer: 'halls',
    apply: async (tx, message: VersionedMessage<{ hall: string }, bigint>) => {
      assertType<Same<typeof tx, Transaction<Tables>>>()
      assertType<Same<typeof message.to, bigint>>()
    },
  })
  assertType<Same<typeof buffer, VersionBuffer<Transaction<Tables>, { hall: string }, bigint>>>()
  const inbox = createInbox({ database, consumer: 'halls' })
  await inbox.run(message, (tx, { payload }) =>
    buffer.process(tx, {
      key: payload.hall,
      from: BigInt(payload.revision) - 1n,
      to: BigInt(payload.revision),
      payload,
    }),
  )
  const { version } = await buffer.resync('hall 1', 5n)
  assertType<Same<typeof version, bigint>>()
  // @ts-expect-error versions of another kind
  await buffer.resync('hall 1', 5)
  // @ts-expect-error no connections of its own
  createVersionBuffer({ database: postgres(), consumer: 'halls', apply: () => {} })
  // @ts-expect-error a typo
  createVersionBuffer({ database, consumer: 'halls', apply: () => {}, maxWait: 1 })
}

interface Held {
  readonly row: string
  readonly place: number
  readonly version: number
}
declare const source: Source<Held>

export function guards(): void {
  createConsumer({
    source,
    inbox: createInbox({ database: postgres({ db }), consumer: 'seats' }),
    guard: versionGuard<Tables, Held>({
      table: 'seats',
      where: ({ payload: { row, place } }) => ({ row, place }),
      version: ({ payload }) => payload.version,
      insert: ({ payload: { row, place } }) => ({ row, place, state: 'free', holder: null, changed_at: '' }),
    }),
    handler: async (tx, { payload }) => {
      await tx.updateTable('seats').set({ state: 'held' }).where('row', '=', payload.row).execute()
    },
  })
  const options = { where: () => ({ id: 1 }), version: () => '3' }
  versionGuard<Tables>({ ...options, table: 'halls', versionColumn: 'revision' })
  // @ts-expect-error the table has no column 'version'
  versionGuard<Tables>({ ...options, table: 'halls' })
  // @ts-expect-error no such table
  versionGuard<Tables>({ ...options, table: 'rooms' })
  // @ts-expect-error no such column
  versionGuard<Tables>({ table: 'seats', where: () => ({ plaze: 1 }), version: () => 1 })
  // @ts-expect-error no version is a Date
  versionGuard<Tables>({ table: 'seats', where: () => ({ place: 1 }), version: () => new Date() })
}
