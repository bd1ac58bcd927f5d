import { randomUUID } from 'node:crypto'
import { createVersioning, stateMachine } from '@txbox/versioning/sql'
import type { InboxMessage, TransactionHandle } from '@txbox/core'
import { beforeAll, describe, expect, test } from 'vitest'
import { libraryRoot } from '../support/engines/library-roots.ts'
import { rootThroughProxy } from '../support/engines/root-through-proxy.ts'
import type { HandleKind, Root, Target } from '../support/engines/target.ts'
import { VALUES, createTableOfAllTypes } from '../support/subjects/table-of-all-types.ts'
import { VersionedTablesUnderTest, failureOf } from '../support/subjects/versioned-tables.ts'

interface Changed {
  readonly id: string
  readonly version: number
}

/**
 * The rules of versioning with every library, version and driver, one test for each. The contract suite tests them in detail,
 * with the libraries whose projects in `vitest.config.ts` run it.
 *
 * @param isAlone there is one connection only, as on PGlite.
 */
export function versioningRules(target: Target, root: Root, kind: HandleKind, isAlone: boolean): void {
  describe('versioning', () => {
    const tables = new VersionedTablesUnderTest(target)
    beforeAll(async () => {
      await tables.create()
      await createTableOfAllTypes(target)
    })
    const versioning = () => createVersioning({ database: root.database })
    const transact = <R>(work: (tx: TransactionHandle) => Promise<R>): Promise<R> =>
      libraryRoot(root).transact((tx) => work(tx as TransactionHandle))
    const machine = stateMachine({ pending: ['paid'], paid: ['refunded'], refunded: [] })

    test('V1 V2 V3 an update and a deletion need the expected version, and the transaction stays usable', async () => {
      const id = await tables.order({ version: 3 })
      const { deleteVersioned, updateVersioned } = versioning()
      await transact(async (tx) => {
        const set = { status: 'paid', total: 7 }
        const conflict = updateVersioned(tx, 'orders', { where: { id }, expected: 2, set })
        expect(await failureOf(conflict)).toMatchObject({ code: 'TXBOX_VERSION_CONFLICT', actual: 3 })
        const missing = updateVersioned(tx, 'orders', { where: { id: 'nobody' }, expected: 3, set })
        expect(await failureOf(missing)).toMatchObject({ code: 'TXBOX_ROW_NOT_FOUND' })
        const updated = await updateVersioned(tx, 'orders', { where: { id }, expected: 3, set })
        expect(updated).toEqual({ version: 4 })
      })
      expect(await tables.read(id)).toMatchObject({ status: 'paid', total: 7, version: '4' })
      await transact((tx) => deleteVersioned(tx, 'orders', { where: { id }, expected: 4 }))
      expect(await tables.read(id)).toBeUndefined()
    })

    test('V1 a transaction that rolls back takes the version back', async () => {
      const id = await tables.order({ version: 3 })
      const failing = transact(async (tx) => {
        await versioning().updateVersioned(tx, 'orders', { where: { id }, expected: 3, set: {} })
        throw new Error('rolled back')
      })
      await expect(failing).rejects.toThrow()
      expect(await tables.read(id)).toMatchObject({ version: '3' })
    })

    test('V2 V3 applied, stale, gap and diverged are distinguished', async () => {
      const id = await tables.order({ version: 5 })
      await transact(async (tx) => {
        const apply = (from: number, to: number) =>
          versioning().applyVersion(tx, 'orders', { where: { id }, from, to, set: { total: to } })
        expect(await apply(1, 4)).toEqual({ status: 'stale', version: 5 })
        expect(await failureOf(apply(6, 7))).toMatchObject({ code: 'TXBOX_VERSION_GAP', actual: 5 })
        expect(await failureOf(apply(4, 6))).toMatchObject({ code: 'TXBOX_VERSION_DIVERGED', actual: 5 })
        expect(await apply(5, 9)).toEqual({ status: 'applied', version: 9 })
      })
      expect(await tables.read(id)).toMatchObject({ version: '9', total: 9 })
    })

    test('V4 a newer change is applied, inserted if there is no row, and refused if it is ahead', async () => {
      const [id, fresh] = [await tables.order(), `new-${randomUUID()}`]
      const insert = { total: 1, version: 1 }
      const apply = (row: string, at: string, more: { maxAheadMs?: number; insert?: object }) =>
        transact((tx) =>
          versioning().applyIfNewer(tx, 'orders', {
            ...{ where: { id: row }, column: 'updated_at', at, set: { total: 5 } },
            ...more,
          }),
        )
      for (const [row, more] of [
        [id, {}],
        [fresh, { insert }],
        [id, { insert }],
      ] as const) {
        const hour = row === id && 'insert' in more ? '13' : '12'
        expect(await apply(row, `2026-01-31T${hour}:00:00.000002Z`, more)).toEqual({ status: 'applied' })
        expect(await apply(row, `2026-01-31T${hour}:00:00.000002Z`, more)).toEqual({ status: 'stale' })
        expect(await apply(row, `2026-01-31T${hour}:00:00.000001Z`, more)).toEqual({ status: 'stale' })
        expect(await apply(row, `2026-01-31T${hour}:00:00.000003Z`, more)).toEqual({ status: 'applied' })
        const ahead = { ...more, maxAheadMs: 60_000 }
        const failure = await failureOf(apply(row, '2999-01-31T12:00:00Z', ahead))
        expect(failure).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
      }
      expect(await tables.read(fresh)).toMatchObject({ total: 5, updatedAt: '2026-01-31 12:00:00.000003' })
      const taken = `taken-${fresh}`
      await target.sql('update orders set other = ? where id = ?', [taken, id])
      const collides = apply(`${fresh}-2`, '2026-01-31T12:00:00Z', { insert: { ...insert, other: taken } })
      expect(await failureOf(collides)).toBeInstanceOf(Error)
      expect(await tables.read(`${fresh}-2`)).toBeUndefined()
    })

    test('V5 a merge in a transaction, and by the root, sees and writes the same', async () => {
      const id = randomUUID()
      await target.sql('insert into things (id, version) values (?, 1)', [id])
      const { updateMerged } = versioning()
      await transact((tx) => updateMerged(tx, 'things', { where: { id }, merge: () => VALUES }))
      const seen: unknown[] = []
      const merge = (row: object) => (seen.push(row), { mood: 'seen' })
      expect(await updateMerged(root.db, 'things', { where: { id }, merge })).toEqual({
        version: 3,
        attempts: 1,
      })
      await transact((tx) => updateMerged(tx, 'things', { where: { id }, merge }))
      const flag = target.engine === 'postgres' ? true : 1
      expect(seen).toStrictEqual([
        { ...VALUES, id, version: 2, flag },
        { ...VALUES, id, version: 3, flag, mood: 'seen' },
      ])
    })

    test('V6 a move is applied once, and one that is too early is reported', async () => {
      const id = await tables.order({ status: 'pending' })
      await transact(async (tx) => {
        const move = (to: string) =>
          versioning().transition(tx, 'orders', { where: { id }, column: 'status', to, machine })
        expect(await failureOf(move('refunded'))).toMatchObject({ code: 'TXBOX_TRANSITION_TOO_EARLY' })
        expect(await move('paid')).toEqual({ status: 'applied' })
        expect(await move('paid')).toEqual({ status: 'already' })
      })
      expect(await tables.read(id)).toMatchObject({ status: 'paid' })
    })

    test('V8 V9 a guard applies newer versions only, and refuses one that the column cannot hold', async () => {
      const id = randomUUID()
      const guard = versioning().versionGuard<Changed>({
        table: 'orders',
        where: ({ payload }: InboxMessage<Changed>) => ({ id: payload.id }),
        version: ({ payload }: InboxMessage<Changed>) => payload.version,
        insert: () => ({ total: 0 }),
      })
      const handle = (version: number) => transact((tx) => guard(tx, { id: 'm', payload: { id, version } }))
      expect(await handle(4)).toBe('apply')
      expect(await handle(4)).toBe('stale')
      expect(await handle(7)).toBe('apply')
      expect(await handle(6)).toBe('stale')
      expect(await failureOf(handle(2 ** 31))).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
      expect(await tables.read(id)).toMatchObject({ version: '7', total: 0 })
    })

    test('V1 a root, and a transaction that has ended, are refused, and nothing is written', async () => {
      const id = await tables.order({ version: 1 })
      const update = (tx: object) =>
        versioning().updateVersioned(tx as TransactionHandle, 'orders', {
          where: { id },
          expected: 1,
          set: {},
        })
      const transaction = await root.begin()
      await transaction.commit()
      for (const tx of [root.db, transaction.tx])
        expect(await failureOf(update(tx))).toMatchObject({ code: 'TXBOX_NOT_IN_TRANSACTION' })
      expect(await tables.read(id)).toMatchObject({ version: '1' })
    })

    if (isAlone) return

    test('V1 a versioned update costs the round trip of an UPDATE by hand', async () => {
      const id = await tables.order({ version: 1 })
      const { proxy, through } = await rootThroughProxy(target, kind)
      const { updateVersioned } = createVersioning({ database: through.database })
      const transaction = await through.begin()
      const cost = async (expected: number): Promise<number> => {
        proxy.countFromHere()
        const options = { where: { id }, expected, set: { total: expected } }
        await updateVersioned(transaction.tx as never, 'orders', options)
        return proxy.roundTrips
      }
      // A driver may prepare a statement when it first runs.
      await cost(1)
      const counted = await cost(2)
      await transaction.rollback()
      const { perCall, perWrite = 0 } = kind.extraRoundTrips ?? { perCall: 0 }
      expect(counted).toBe(1 + perCall + perWrite)
    })
  })
}
