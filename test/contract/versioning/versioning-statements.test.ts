import {
  applyIfNewer,
  applyVersion,
  deleteVersioned,
  stateMachine,
  transition,
  updateVersioned,
} from '@txbox/versioning'
import type { Kysely, KyselyPlugin } from 'kysely'
import { expect, test } from 'vitest'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import {
  kyselyOf,
  useVersionedTables,
  type VersionedTables,
} from '../../support/subjects/versioned-tables.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const root = useRoot(
  target,
  target.kinds.find((kind) => kind.library === 'kysely')!,
)

/** The number of statements that the work sends. */
async function statementsOf(work: (db: Kysely<VersionedTables>) => Promise<unknown>): Promise<number> {
  let count = 0
  const counter: KyselyPlugin = {
    transformQuery({ node }) {
      count++
      return node
    },
    transformResult: async ({ result }) => result,
  }
  await work(kyselyOf(target, root).withPlugin(counter)).catch(() => undefined)
  return count
}

const machine = stateMachine({ pending: ['paid'], paid: ['refunded'], refunded: [] })
const times = { column: 'updated_at', set: {} } as const
const old = '2020-01-01T00:00:00Z'

test('V1 V4 V6 a successful call sends one statement', async () => {
  const id = await tables.order({ version: 1 })
  const where = { id }
  const set = {}
  const insert = { id, total: 0, version: 1, updated_at: null }
  expect(await statementsOf((db) => updateVersioned(db, 'orders', { where, expected: 1, set }))).toBe(1)
  expect(await statementsOf((db) => applyVersion(db, 'orders', { where, from: 2, to: 5, set }))).toBe(1)
  const to = { where, column: 'status', to: 'paid', machine } as const
  expect(await statementsOf((db) => transition(db, 'orders', to))).toBe(1)
  expect(await statementsOf((db) => applyIfNewer(db, 'orders', { ...times, where, at: old }))).toBe(1)
  const now = await target.now()
  const upsert = { ...times, where, at: now, insert, maxAheadMs: 60_000 }
  expect(await statementsOf((db) => applyIfNewer(db, 'orders', upsert))).toBe(1)
  const fresh = { ...upsert, where: { id: `${id}-2` }, insert: { ...insert, id: `${id}-2` } }
  expect(await statementsOf((db) => applyIfNewer(db, 'orders', fresh))).toBe(1)
  expect(await tables.read(`${id}-2`)).toBeDefined()
  expect(await statementsOf((db) => deleteVersioned(db, 'orders', { where, expected: 5 }))).toBe(1)
  expect(await tables.read(id)).toBeUndefined()
})

test('V2 one more statement finds the reason when nothing was written', async () => {
  const id = await tables.order({ version: 5, status: 'pending', updatedAt: '2026-01-31 12:00:00' })
  const where = { id }
  const set = {}
  const insert = { id, total: 0, version: 1, updated_at: null }
  const late = { where, column: 'status', to: 'refunded', machine } as const
  for (const work of [
    (db) => updateVersioned(db, 'orders', { where, expected: 4, set }),
    (db) => updateVersioned(db, 'orders', { where: { id: 'nobody' }, expected: 4, set }),
    (db) => deleteVersioned(db, 'orders', { where, expected: 4 }),
    (db) => applyVersion(db, 'orders', { where, from: 4, to: 5, set }),
    (db) => applyVersion(db, 'orders', { where, from: 7, to: 8, set }),
    (db) => transition(db, 'orders', late),
    (db) => applyIfNewer(db, 'orders', { ...times, where, at: old }),
    (db) => applyIfNewer(db, 'orders', { ...times, where, at: old, insert }),
  ] satisfies ((db: Kysely<VersionedTables>) => Promise<unknown>)[]) {
    expect(await statementsOf(work)).toBe(2)
  }
  expect(await tables.read(id)).toMatchObject({ version: '5', status: 'pending' })
})
