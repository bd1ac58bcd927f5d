import { applyIfNewer, updateMerged } from '@txbox/versioning'
import { InvalidOptionError } from '@txbox/core'
import { CamelCasePlugin } from 'kysely'
import { expect, test } from 'vitest'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import {
  failureOf,
  kyselyOf,
  useVersionedTables,
  type VersionedTables,
} from '../../support/subjects/versioned-tables.ts'
import { onEachHalfAtOneLevel, onOddRoots } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const root = useRoot(
  target,
  target.kinds.find((kind) => kind.library === 'kysely')!,
)
const db = () => kyselyOf(target, root)

/** The first number that a floating-point number cannot distinguish from its neighbor. */
const BIG = 2n ** 53n + 1n

onEachHalfAtOneLevel(target, (subject) => {
  const { applyVersion, updateVersioned } = subject
  const db = () => subject.db
  test('V1 a version is returned exactly, with the type that was passed in', async () => {
    const account = await tables.ledger(BIG)
    const update = <V extends bigint | string | number>(expected: V) =>
      updateVersioned(db(), 'ledgers', { where: { account }, versionColumn: 'rev', expected, set: {} })
    expect(await update(BIG)).toEqual({ version: BIG + 1n })
    expect(await update(String(BIG + 1n))).toEqual({ version: String(BIG + 2n) })
    expect(await tables.rev(account)).toBe(String(BIG + 2n))

    // Its neighbor is another version, although both are the same floating-point number.
    const neighbour = await failureOf(update(BIG + 1n))
    expect(neighbour).toMatchObject({ code: 'TXBOX_VERSION_CONFLICT', expected: BIG + 1n, actual: BIG + 2n })
    const text = await failureOf(update(String(BIG + 3n)))
    expect(text).toMatchObject({ expected: String(BIG + 3n), actual: String(BIG + 2n) })
  })

  test('V2 a number that would be rounded throws', async () => {
    const account = await tables.ledger(BIG)
    const options = { where: { account }, versionColumn: 'rev', set: {} } as const
    const stale = applyVersion(db(), 'ledgers', { ...options, from: 1, to: 2 })
    expect(await failureOf(stale)).toBeInstanceOf(InvalidOptionError)
    expect(await applyVersion(db(), 'ledgers', { ...options, from: '1', to: '2' })).toEqual({
      status: 'stale',
      version: String(BIG),
    })
    expect(await applyVersion(db(), 'ledgers', { ...options, from: 1n, to: BIG })).toEqual({
      status: 'stale',
      version: BIG,
    })
    const last = { ...options, expected: Number.MAX_SAFE_INTEGER }
    expect(await failureOf(updateVersioned(db(), 'ledgers', last))).toBeInstanceOf(InvalidOptionError)
    expect(await tables.rev(account)).toBe(String(BIG))
  })
})

test('V5 a merge is exact too, whatever type the driver returns for the version', async () => {
  const account = await tables.ledger(BIG)
  const merge = () => ({ balance: 1 })
  const options = { where: { account }, versionColumn: 'rev', merge } as const
  const { version } = await updateMerged(db(), 'ledgers', options).catch(() => ({ version: undefined }))
  // mysql2 gives a number, which would be rounded: then nothing is written.
  expect(version).toBe(target.engine === 'postgres' ? String(BIG + 1n) : undefined)
  expect(await tables.rev(account)).toBe(String(target.engine === 'postgres' ? BIG + 1n : BIG))
})

onOddRoots(target, (odd, half, during) => {
  test(`V1 V2 V4 outcomes do not depend on the settings of the driver: ${odd}, ${half}`, () =>
    during(async (subject) => {
      const [ledgers, orders] = [subject.table('ledgers'), subject.table('orders')]
      const { applyIfNewer, applyVersion, updateVersioned } = subject
      const account = await tables.ledger(BIG)
      const id = await tables.order({ version: 3 })
      let total = 0
      await subject.inTransaction(async (tx) => {
        const ledger = { where: { account }, versionColumn: 'rev', set: { balance: 5 } } as const
        expect(await updateVersioned(tx, ledgers, { ...ledger, expected: BIG })).toEqual({
          version: BIG + 1n,
        })
        expect(await applyVersion(tx, ledgers, { ...ledger, from: BIG, to: BIG + 1n })).toEqual({
          status: 'stale',
          version: BIG + 1n,
        })
        expect(await failureOf(updateVersioned(tx, ledgers, { ...ledger, expected: BIG }))).toMatchObject({
          actual: BIG + 1n,
        })
        for (const [at, status] of [
          ['2026-01-01T00:00:00.123456Z', 'applied'],
          ['2026-01-01T05:30:00.123456+05:30', 'stale'],
          ['2026-01-01T00:00:00.123457Z', 'applied'],
        ] as const) {
          const set = { total: (total += 1) }
          expect(await applyIfNewer(tx, orders, { where: { id }, column: 'updated_at', at, set })).toEqual({
            status,
          })
        }
        const inserted = {
          where: { id: `${id}-2` },
          column: 'updated_at',
          set: {},
          insert: { id: `${id}-2`, total: 0, version: 1, updated_at: null },
        } as const
        for (const [at, status] of [
          ['2026-01-01T00:00:00.000002Z', 'applied'],
          ['2026-01-01T00:00:00.000002Z', 'stale'],
          ['2026-01-01T00:00:00.000001Z', 'stale'],
          ['2026-01-01T00:00:00.000003Z', 'applied'],
        ] as const) {
          expect(await applyIfNewer(tx, orders, { ...inserted, at })).toEqual({ status })
        }
      })
      expect(await tables.rev(account)).toBe(String(BIG + 1n))
      // The second one was stale.
      expect(await tables.read(id)).toMatchObject({ total: 3, updatedAt: '2026-01-01 00:00:00.123457' })
      expect(await tables.read(`${id}-2`)).toMatchObject({ updatedAt: '2026-01-01 00:00:00.000003' })
    }))
})

test("V1 V4 V5 the user's own names work when a plugin converts them", async () => {
  const id = await tables.order({ version: 3 })
  type Camel = { orders: Omit<VersionedTables['orders'], 'updated_at'> & { updatedAt: string } }
  const camel = db().withPlugin(new CamelCasePlugin()).withTables<Camel>()
  const at = '2026-01-01T00:00:00Z'
  const newer = { where: { id }, column: 'updatedAt', at, set: { total: 1 } } as const
  expect(await applyIfNewer(camel, 'orders', newer)).toEqual({ status: 'applied' })
  let seen: unknown
  const merged = updateMerged(camel, 'orders', {
    where: { id },
    merge: (row) => ((seen = row), { total: 2 }),
  })
  expect(await merged).toEqual({ version: 4, attempts: 1 })
  expect(Object.keys(seen as object).sort()).toEqual(
    ['id', 'note', 'other', 'status', 'total', 'updatedAt', 'version'].sort(),
  )
})
