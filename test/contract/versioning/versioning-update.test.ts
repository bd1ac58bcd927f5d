import { RowNotFoundError, VersionConflictError } from '@txbox/versioning'
import { TransactionConflictError, isTxboxError, type TransactionHandle } from '@txbox/core'
import { expect, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import { onEachHalf } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)

onEachHalf(target, (subject) => {
  const { applyVersion, deleteVersioned, isolation, root, updateVersioned } = subject
  const db = () => subject.db

  test('V1 an update at the expected version increments the version by one, in the transaction', async () => {
    const id = await tables.order({ total: 5, version: 3 })
    const rolledBack = new Error('rolled back')
    const attempt = subject.inTransaction(async (tx) => {
      const options = { where: { id }, expected: 3, set: { status: 'paid', total: 7 } }
      expect(await updateVersioned(tx, 'orders', options)).toEqual({ version: 4 })
      throw rolledBack
    })
    expect(await failureOf(attempt)).toBe(rolledBack)
    expect(await tables.read(id)).toMatchObject({ version: '3', total: 5 })

    expect(await updateVersioned(db(), 'orders', { where: { id }, expected: 3, set: {} })).toEqual({
      version: 4,
    })
    expect(await tables.read(id)).toMatchObject({ version: '4', total: 5 })
  })

  test('V1 of N writers with the same expectation, one wins', async () => {
    const id = await tables.order({ version: 1 })
    const writers = Array.from({ length: 8 }, (_, n) =>
      subject.inTransaction((tx) =>
        updateVersioned(tx, 'orders', { where: { id }, expected: 1, set: { total: n + 1 } }),
      ),
    )
    const results = await Promise.allSettled(writers)
    const won = results.flatMap((result, n) => (result.status === 'fulfilled' ? [n + 1] : []))
    expect(won).toHaveLength(1)
    expect(await tables.read(id)).toMatchObject({ version: '2', total: won[0] })
    for (const result of results) {
      if (result.status === 'fulfilled') continue
      // At REPEATABLE READ PostgreSQL refuses to change what its snapshot does not show.
      const expected =
        result.reason instanceof TransactionConflictError ? TransactionConflictError : VersionConflictError
      expect(result.reason).toBeInstanceOf(expected)
      if (target.waitersMustRetry(isolation)) continue
      expect(result.reason).toMatchObject({ expected: 1, actual: 2 })
    }
  })

  test('V2 a missing row is distinguished from a row at another version', async () => {
    const id = await tables.order({ version: 3 })
    const missing = await failureOf(
      updateVersioned(db(), 'orders', { where: { id: 'nobody' }, expected: 3, set: {} }),
    )
    expect(missing).toBeInstanceOf(RowNotFoundError)
    expect(missing).toMatchObject({ code: 'TXBOX_ROW_NOT_FOUND', table: 'orders', retryable: false })
    expect(String(missing)).toContain("orders (id = 'nobody')")
    for (const expected of [2, 4]) {
      const conflict = await failureOf(
        updateVersioned(db(), 'orders', { where: { id }, expected, set: { total: 9 } }),
      )
      expect(conflict).toBeInstanceOf(VersionConflictError)
      expect(isTxboxError(conflict)).toBe(true)
      expect(conflict).toMatchObject({ code: 'TXBOX_VERSION_CONFLICT', expected, actual: 3, retryable: true })
    }
    expect(await tables.read(id)).toMatchObject({ version: '3', total: 0 })
  })

  test('V2 a deletion requires the expected version too', async () => {
    const id = await tables.order({ version: 3 })
    const conflict = await failureOf(deleteVersioned(db(), 'orders', { where: { id }, expected: 2 }))
    expect(conflict).toMatchObject({ code: 'TXBOX_VERSION_CONFLICT', expected: 2, actual: 3 })
    await deleteVersioned(db(), 'orders', { where: { id }, expected: 3 })
    expect(await tables.read(id)).toBeUndefined()
    const gone = await failureOf(deleteVersioned(db(), 'orders', { where: { id }, expected: 3 }))
    expect(gone).toBeInstanceOf(RowNotFoundError)
  })

  test('V2 applied, stale, gap and diverged are distinguished', async () => {
    const id = await tables.order({ version: 5 })
    const apply = (from: number, to: number) =>
      applyVersion(db(), 'orders', { where: { id }, from, to, set: { total: to } })
    expect(await apply(1, 4)).toEqual({ status: 'stale', version: 5 })
    expect(await apply(4, 5)).toEqual({ status: 'stale', version: 5 })
    expect(await failureOf(apply(6, 7))).toMatchObject({
      code: 'TXBOX_VERSION_GAP',
      retryable: true,
      from: 6,
      actual: 5,
    })
    expect(await failureOf(apply(4, 6))).toMatchObject({
      code: 'TXBOX_VERSION_DIVERGED',
      retryable: false,
      from: 4,
      to: 6,
      actual: 5,
    })
    expect(await tables.read(id)).toMatchObject({ version: '5', total: 0 })
    expect(await apply(5, 9)).toEqual({ status: 'applied', version: 9 })
    expect(await tables.read(id)).toMatchObject({ version: '9', total: 9 })
    const missing = applyVersion(db(), 'orders', { where: { id: 'nobody' }, from: 1, to: 2, set: {} })
    expect(await failureOf(missing)).toBeInstanceOf(RowNotFoundError)
  })

  test('V2 the outcome describes the current row, not an older snapshot', async () => {
    const id = await tables.order({ version: 3 })
    const answer = subject.inTransaction(async (tx) => {
      await target.exec(tx, 'select version from orders where id = ?', [id])
      await updateVersioned(db(), 'orders', { where: { id }, expected: 3, set: { total: 1 } })
      return updateVersioned(tx, 'orders', { where: { id }, expected: 4, set: { total: 2 } })
    })
    if (target.refusesNewer(isolation)) {
      // The snapshot cannot show version 4, so that the transaction must be run again.
      expect(await failureOf(answer)).toBeInstanceOf(TransactionConflictError)
    } else {
      expect(await answer).toEqual({ version: 5 })
    }
  })

  test('V2 the versions in a conflict or a gap describe the current row too', async () => {
    const id = await tables.order({ version: 3 })
    const failureIn = (work: (tx: TransactionHandle) => Promise<unknown>): Promise<unknown> =>
      failureOf(
        subject.inTransaction(async (tx) => {
          const [row] = await target.exec(tx, 'select version from orders where id = ?', [id])
          const expected = Number(row?.['version'])
          await updateVersioned(db(), 'orders', { where: { id }, expected, set: {} })
          return work(tx)
        }),
      )
    const conflict = await failureIn((tx) =>
      updateVersioned(tx, 'orders', { where: { id }, expected: 9, set: {} }),
    )
    const gap = await failureIn((tx) =>
      applyVersion(tx, 'orders', { where: { id }, from: 9, to: 10, set: {} }),
    )
    if (target.refusesNewer(isolation)) {
      for (const error of [conflict, gap]) expect(error).toBeInstanceOf(TransactionConflictError)
    } else {
      expect(conflict).toMatchObject({ code: 'TXBOX_VERSION_CONFLICT', expected: 9, actual: 4 })
      expect(gap).toMatchObject({ code: 'TXBOX_VERSION_GAP', from: 9, actual: 5 })
    }
  })

  test('V2 a change waits for a predecessor that is being committed, and is not a gap', async () => {
    const id = await tables.order({ version: 3 })
    const first = await root.begin()
    await first.exec('update orders set version = 4 where id = ?', [id])
    const second = subject.inTransaction((tx) =>
      applyVersion(tx, 'orders', { where: { id }, from: 4, to: 5, set: { total: 5 } }),
    )
    const outcome = second.catch((error: unknown) => error)
    await target.blocked(1)
    await first.commit()
    if (target.waitersMustRetry(isolation)) {
      expect(await outcome).toBeInstanceOf(TransactionConflictError)
    } else {
      expect(await outcome).toEqual({ status: 'applied', version: 5 })
    }
  })

  test('V3 the transaction stays usable when nothing was written', async () => {
    const id = await tables.order({ version: 3 })
    await subject.inTransaction(async (tx) => {
      await failureOf(updateVersioned(tx, 'orders', { where: { id }, expected: 9, set: {} }))
      await failureOf(updateVersioned(tx, 'orders', { where: { id: 'nobody' }, expected: 9, set: {} }))
      await failureOf(applyVersion(tx, 'orders', { where: { id }, from: 7, to: 8, set: {} }))
      await applyVersion(tx, 'orders', { where: { id }, from: 3, to: 4, set: { total: 4 } })
    })
    expect(await tables.read(id)).toMatchObject({ version: '4', total: 4 })
  })
})
