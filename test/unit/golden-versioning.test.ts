import { readdirSync } from 'node:fs'
import path from 'node:path'
import {
  DummyDriver,
  Kysely,
  MysqlAdapter,
  MysqlQueryCompiler,
  PostgresAdapter,
  PostgresQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type QueryResult,
  type Transaction,
} from 'kysely'
import { describe, expect, test } from 'vitest'
import {
  applyIfNewer,
  deleteVersioned,
  stateMachine,
  transition,
  updateMerged,
  updateVersioned,
  versionGuard,
} from '@txbox/versioning'

interface Shop {
  orders: {
    id: string
    status: 'open' | 'paid'
    total: number
    version: number
    changedAt: Date | null
  }
}

/** The answers of the server. MySQL and MariaDB get a query for the unique keys of the table before an INSERT. */
const ANSWERS: readonly (readonly [RegExp, object])[] = [
  [/^show index/, { Key_name: 'PRIMARY', Non_unique: 0, Column_name: 'id' }],
  [/^select \*/, { id: 'o1', status: 'open', total: 1, version: 1, changedAt: null, txboxversion: '1' }],
  [/count\(\*\)/, { reason: 'ahead', rows: 0 }],
]

/** Records each statement. No row is ever written, so that a call also queries the reason. */
class Recorder implements DatabaseConnection {
  readonly texts: string[] = []

  async executeQuery<R>({ sql }: CompiledQuery): Promise<QueryResult<R>> {
    this.texts.push(sql)
    const rows = ANSWERS.filter(([pattern]) => pattern.test(sql)).map(([, row]) => row)
    return { rows: rows as R[], numAffectedRows: 0n }
  }

  // oxlint-disable-next-line require-yield -- no statement of versioning is streamed
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('No statement of versioning is streamed.')
  }
}

function recording(recorder: Recorder, engine: 'postgres' | 'mysql'): Kysely<Shop> {
  const isPostgres = engine === 'postgres'
  return new Kysely<Shop>({
    dialect: {
      createAdapter: () => (isPostgres ? new PostgresAdapter() : new MysqlAdapter()),
      createQueryCompiler: () => (isPostgres ? new PostgresQueryCompiler() : new MysqlQueryCompiler()),
      createIntrospector: () => {
        throw new Error('Versioning does not introspect.')
      },
      createDriver: () => new (driverOn(recorder))(),
    } satisfies Dialect,
  })
}

function driverOn(recorder: Recorder): typeof DummyDriver {
  return class extends DummyDriver {
    override async acquireConnection(): Promise<DatabaseConnection> {
      return recorder
    }
  }
}

const where = { id: 'o1' }
const machine = stateMachine({ open: ['paid'], paid: [] })

const guard = { table: 'orders', where: () => where, version: () => 2 } as const

const CALLS: Record<string, (tx: Transaction<Shop>) => Promise<unknown>> = {
  'update-versioned': (tx) => updateVersioned(tx, 'orders', { where, expected: 1, set: { total: 2 } }),
  // The first version beyond those that every column holds: the server is asked for the type of the column.
  'version-range': (tx) => updateVersioned(tx, 'orders', { where, expected: 127, set: { total: 2 } }),
  'delete-versioned': (tx) => deleteVersioned(tx, 'orders', { where, expected: 1 }),
  'update-merged': (tx) => updateMerged(tx, 'orders', { where, merge: () => ({ total: 2 }) }),
  transition: (tx) => transition(tx, 'orders', { where, column: 'status', to: 'paid', machine }),
  'apply-if-newer': (tx) =>
    applyIfNewer(tx, 'orders', {
      where,
      column: 'changedAt',
      at: '2026-01-02T03:04:05.678901Z',
      set: { total: 2 },
      maxAheadMs: 1000,
    }),
  'apply-if-newer-or-insert': (tx) =>
    applyIfNewer(tx, 'orders', {
      where,
      column: 'changedAt',
      at: '2026-01-02T03:04:05.678901Z',
      set: { total: 2 },
      insert: { id: 'o1', status: 'open', total: 2, version: 1 },
    }),
  'version-guard': (tx) => versionGuard<Shop>(guard)(tx, { id: 'm1', payload: {} }),
  'version-guard-or-insert': (tx) =>
    versionGuard<Shop>({
      ...guard,
      insert: () => ({ id: 'o1', status: 'open', total: 2, version: 0, changedAt: null }),
    })(tx, { id: 'm1', payload: {} }),
}

/**
 * Every statement of versioning on a user's table has an approved text: what Kysely makes of the texts of txbox. After a
 * change that is meant: `vitest run --project unit -u`.
 */
describe.each(['postgres', 'mysql'] as const)('%s', (engine) => {
  const approved = path.join(import.meta.dirname, '..', 'golden', `versioning-${engine}`)

  test.for(Object.entries(CALLS))('%s', async ([name, call]) => {
    const recorder = new Recorder()
    const db = recording(recorder, engine)
    const error = await db
      .transaction()
      .execute(call)
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: expect.stringMatching(/^TXBOX_/) })
    // A call that finds no row to change, and none that is in the way, tries again and again.
    const texts = [...new Set(recorder.texts)]
    await expect(`${texts.join(';\n\n')};\n`).toMatchFileSnapshot(path.join(approved, `${name}.sql`))
  })

  test('every approved text belongs to an existing call', () => {
    expect(readdirSync(approved).sort()).toEqual(
      Object.keys(CALLS)
        .map((name) => `${name}.sql`)
        .sort(),
    )
  })
})
