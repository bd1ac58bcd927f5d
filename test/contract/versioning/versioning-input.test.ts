import { stateMachine, updateMerged, updateVersioned } from '@txbox/versioning'
import { InvalidOptionError, UnsupportedTransactionError } from '@txbox/core'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import {
  failureOf,
  kyselyOf,
  useVersionedTables,
  type VersionedTables,
} from '../../support/subjects/versioned-tables.ts'
import {
  onEachHalfAtOneLevel,
  type VersioningUnderTest,
} from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const root = useRoot(
  target,
  target.kinds.find((kind) => kind.library === 'kysely')!,
)
const db = () => kyselyOf(target, root)
const machine = stateMachine({ pending: ['paid'], paid: [] })

type Where = { id: string }
const calls: Record<string, (on: VersioningUnderTest, where: Where) => Promise<unknown>> = {
  updateVersioned: (on, where) =>
    on.updateVersioned(on.db, 'orders', { where, expected: 1, set: { total: 9 } }),
  deleteVersioned: (on, where) => on.deleteVersioned(on.db, 'orders', { where, expected: 1 }),
  applyVersion: (on, where) => on.applyVersion(on.db, 'orders', { where, from: 1, to: 2, set: { total: 9 } }),
  applyIfNewer: (on, where) =>
    on.applyIfNewer(on.db, 'orders', { where, column: 'updated_at', at: new Date(), set: { total: 9 } }),
  'applyIfNewer with insert': (on, where) =>
    on.applyIfNewer(on.db, 'orders', {
      where,
      column: 'updated_at',
      at: new Date(),
      set: { total: 9 },
      insert: { id: 'new', total: 9, version: 1, updated_at: null },
    }),
  transition: (on, where) => on.transition(on.db, 'orders', { where, column: 'status', to: 'paid', machine }),
  updateMerged: (on, where) => on.updateMerged(on.db, 'orders', { where, merge: () => ({ total: 9 }) }),
}

onEachHalfAtOneLevel(target, (subject) => {
  describe.each(Object.entries(calls))('%s', (_, call) => {
    const refused: Record<string, unknown> = {
      'an empty one': {},
      'an undefined one': undefined,
      'an undefined column': { id: undefined },
      'a null column': { id: null },
      'one undefined column of two': { id: 'x', status: undefined },
      'an object, which a driver would make SQL of': { id: { id: 1 } },
      'a list': { id: ['a', 'b'] },
      'an expression': { id: sql`id` },
      'a function': { id: () => sql`id` },
      'no number': { id: Number.NaN },
    }
    test.each(Object.entries(refused))(
      'V3 the option where refuses %s, before anything is written',
      async (_, where) => {
        const id = await tables.order()
        const failure = await failureOf(call(subject, where as Where))
        expect(failure).toBeInstanceOf(InvalidOptionError)
        expect(failure).toMatchObject({ retryable: false })
        expect(await tables.read(id)).toMatchObject({ total: 0, version: '1', updatedAt: null })
      },
    )
  })
})

test('V3 a where that matches several rows is an error, so that the transaction rolls back', async () => {
  const ids = [await tables.order({ total: 777 }), await tables.order({ total: 777 })]
  const attempt = db()
    .transaction()
    .execute((tx) =>
      updateVersioned(tx, 'orders', { where: { total: 777 }, expected: 1, set: { note: 'x' } }),
    )
  expect(await failureOf(attempt)).toBeInstanceOf(InvalidOptionError)
  const read = updateVersioned(db(), 'orders', { where: { total: 777 }, expected: 5, set: {} })
  expect(await failureOf(read)).toBeInstanceOf(InvalidOptionError)
  for (const id of ids) expect(await tables.read(id)).toMatchObject({ version: '1' })
})

onEachHalfAtOneLevel(target, (subject) => {
  const { applyVersion, updateMerged, updateVersioned } = subject

  test('V3 `to` must be greater than `from`, and versions must be exact whole numbers', async () => {
    const id = await tables.order()
    const apply = (from: number, to: number) =>
      applyVersion(subject.db, 'orders', { where: { id }, from, to, set: {} })
    for (const [from, to] of [
      [1, 1],
      [2, 1],
      [1, 1.5],
      [1, 2 ** 53],
      [Number.NaN, 2],
    ] as const) {
      expect(await failureOf(apply(from, to))).toBeInstanceOf(InvalidOptionError)
    }
    const text = (expected: string) =>
      updateVersioned(subject.db, 'orders', { where: { id }, expected, set: {} })
    for (const wrong of ['', ' 1', '1.0', '1e3', '0x1', 'one', '9'.repeat(30)]) {
      expect(await failureOf(text(wrong))).toBeInstanceOf(InvalidOptionError)
    }
    const mixed = applyVersion(subject.db, 'orders', { where: { id }, from: 1, to: 2n as never, set: {} })
    expect(await failureOf(mixed)).toBeInstanceOf(InvalidOptionError)
    expect(await tables.read(id)).toMatchObject({ version: '1' })
  })

  test('V3 a set with the column that txbox writes is refused, and so is a misspelt option', async () => {
    const id = await tables.order()
    const set = { version: 7 } as never
    expect(
      await failureOf(updateVersioned(subject.db, 'orders', { where: { id }, expected: 1, set })),
    ).toBeInstanceOf(InvalidOptionError)
    const merged = updateMerged(subject.db, 'orders', { where: { id }, merge: () => set })
    expect(await failureOf(merged)).toBeInstanceOf(InvalidOptionError)
    const misspelt = { where: { id }, expect: 1, set: {} } as never
    expect(await failureOf(updateVersioned(subject.db, 'orders', misspelt))).toBeInstanceOf(
      InvalidOptionError,
    )
    expect(await tables.read(id)).toMatchObject({ version: '1' })
  })
})

test('V3 a function in set that returns no expression is refused, and the column is named', async () => {
  const id = await tables.order()
  for (const returned of [undefined, null, 7, {}, Promise.resolve(sql`9`)]) {
    const set = { total: () => returned } as never
    const attempts = [
      updateVersioned(db(), 'orders', { where: { id }, expected: 1, set }),
      updateMerged(db(), 'orders', { where: { id }, merge: () => set }),
    ]
    for (const failure of await Promise.all(attempts.map(failureOf))) {
      expect(failure).toBeInstanceOf(InvalidOptionError)
      expect((failure as Error).message).toContain(
        "in 'set', the function of 'total' must return a Kysely expression",
      )
    }
  }
  expect(await tables.read(id)).toMatchObject({ total: 0, version: '1' })
  await updateVersioned(db(), 'orders', { where: { id }, expected: 1, set: { total: () => sql`9` } })
  expect(await tables.read(id)).toMatchObject({ total: 9, version: '2' })
})

test('V3 a value that is not a Kysely is refused', async () => {
  for (const stray of [undefined, null, {}, target, root]) {
    const call = updateVersioned<VersionedTables, 'orders', number>(stray as never, 'orders', {
      where: { id: 'x' },
      expected: 1,
      set: {},
    })
    expect(await failureOf(call)).toBeInstanceOf(UnsupportedTransactionError)
  }
})
