import { randomUUID } from 'node:crypto'
import { InvalidMessageError, InvalidOptionError, TransactionConflictError } from '@txbox/core'
import { describe, expect, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import { onEachHalf, onEachHalfAtOneLevel } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const newRow = (id: string) => ({ id, total: 100, version: 1, updated_at: null })

onEachHalf(target, (subject) => {
  const { applyIfNewer } = subject
  const own = randomUUID()
  const db = () => subject.db
  const apply = (id: string, at: Date | string, total: number) =>
    applyIfNewer(db(), 'orders', { where: { id }, column: 'updated_at', at, set: { total } })
  const applyOrInsert = (id: string, at: Date | string, total: number, maxAheadMs?: number) =>
    applyIfNewer(db(), 'orders', {
      where: { id },
      column: 'updated_at',
      at,
      set: { total },
      insert: newRow(id),
      maxAheadMs,
    })

  test('V4 a newer change is applied; an equal or older one is stale, to the microsecond', async () => {
    const id = await tables.order()
    expect(await apply(id, '2026-01-31T12:00:00.000002Z', 1)).toEqual({ status: 'applied' })
    expect(await apply(id, '2026-01-31T12:00:00.000002Z', 2)).toEqual({ status: 'stale' })
    expect(await apply(id, '2026-01-31T12:00:00.000001Z', 3)).toEqual({ status: 'stale' })
    expect(await apply(id, new Date('2026-01-31T12:00:00.000Z'), 4)).toEqual({ status: 'stale' })
    expect(await tables.read(id)).toMatchObject({ total: 1, updatedAt: '2026-01-31 12:00:00.000002' })
    // The same instant, written in another zone, and the next microsecond.
    expect(await apply(id, '2026-01-31T17:30:00.000002+05:30', 5)).toEqual({ status: 'stale' })
    expect(await apply(id, '2026-01-31t12:00:00.000003z', 6)).toEqual({ status: 'applied' })
    expect(await apply(id, new Date('2026-01-31T12:00:00.001Z'), 7)).toEqual({ status: 'applied' })
    expect(await tables.read(id)).toMatchObject({ total: 7, updatedAt: '2026-01-31 12:00:00.001000' })
  })

  test('V4 a missing row is reported, or inserted by the same statement', async () => {
    expect(await failureOf(apply('nobody', new Date(), 1))).toMatchObject({ code: 'TXBOX_ROW_NOT_FOUND' })
    const id = `new-${own}`
    expect(await applyOrInsert(id, '2026-01-31T12:00:00.000002Z', 1)).toEqual({ status: 'applied' })
    expect(await tables.read(id)).toMatchObject({ total: 100, updatedAt: '2026-01-31 12:00:00.000002' })
    expect(await applyOrInsert(id, '2026-01-31T12:00:00.000002Z', 2)).toEqual({ status: 'stale' })
    expect(await applyOrInsert(id, '2026-01-31T12:00:00.000001Z', 3)).toEqual({ status: 'stale' })
    expect(await applyOrInsert(id, '2026-01-31T12:00:00.000003Z', 4)).toEqual({ status: 'applied' })
    expect(await tables.read(id)).toMatchObject({ total: 4, updatedAt: '2026-01-31 12:00:00.000003' })
  })

  test('V4 of many concurrent changes the newest stays, whatever their order', async () => {
    const id = `race-${own}`
    const writes = [5, 2, 8, 1, 7, 3, 6, 4].map(async (n) => {
      for (;;) {
        try {
          return await applyOrInsert(id, `2026-01-31T12:00:00.00000${n}Z`, n)
        } catch (error) {
          if (!(error instanceof TransactionConflictError)) throw error
        }
      }
    })
    await Promise.all(writes)
    expect(await tables.read(id)).toMatchObject({ updatedAt: '2026-01-31 12:00:00.000008' })
  })

  test('V4 maxAheadMs refuses a time from the future, by the clock of the database', async () => {
    const id = await tables.order()
    const ahead = async (ms: number) => new Date((await target.now()).getTime() + ms)
    const refused = { where: { id }, column: 'updated_at', set: { total: 1 }, maxAheadMs: 60_000 } as const
    const failure = await failureOf(applyIfNewer(db(), 'orders', { ...refused, at: await ahead(120_000) }))
    expect(failure).toBeInstanceOf(InvalidMessageError)
    expect(await tables.read(id)).toMatchObject({ total: 0, updatedAt: null })
    const fine = applyIfNewer(db(), 'orders', { ...refused, at: await ahead(30_000) })
    expect(await fine).toEqual({ status: 'applied' })
    const missing = applyOrInsert(`ahead-${own}`, await ahead(120_000), 1, 60_000)
    expect(await failureOf(missing)).toBeInstanceOf(InvalidMessageError)
    expect(await failureOf(applyOrInsert(id, await ahead(120_000), 1, 60_000))).toBeInstanceOf(
      InvalidMessageError,
    )
    expect(await tables.read(`ahead-${own}`)).toBeUndefined()
    expect(await applyOrInsert(`ahead-${own}`, await ahead(0), 1, 60_000)).toEqual({
      status: 'applied',
    })
  })

  test('V3 V4 after a stale change the transaction stays usable', async () => {
    const id = await tables.order({ updatedAt: '2026-01-31 12:00:00' })
    await subject.inTransaction(async (tx) => {
      const options = { where: { id }, column: 'updated_at', set: {} } as const
      const old = '2020-01-01T00:00:00Z'
      expect(await applyIfNewer(tx, 'orders', { ...options, at: old })).toEqual({ status: 'stale' })
      const insert = newRow(id)
      expect(await applyIfNewer(tx, 'orders', { ...options, at: old, insert })).toEqual({ status: 'stale' })
      const newer = applyIfNewer(tx, 'orders', {
        ...options,
        at: '2027-01-01T00:00:00Z',
        set: { total: 5, status: id.slice(0, 8) },
        insert,
      })
      expect(await newer).toEqual({ status: 'applied' })
    })
    expect(await tables.read(id)).toMatchObject({
      total: 5,
      status: id.slice(0, 8),
      updatedAt: '2027-01-01 00:00:00.000000',
    })
  })
})

describe('refused input', () => {
  onEachHalfAtOneLevel(target, (subject) => {
    const { applyIfNewer } = subject
    const db = () => subject.db

    test.each([
      '2026-01-31',
      '2026-01-31T12:00:00',
      '2026-02-30T12:00:00Z',
      '2026-01-31T12:00:60Z',
      '2026-01-31T12:00:00.1234567Z',
      '2026-01-31T12:00:00+24:00',
      '0000-01-01T00:00:00Z',
      '9999-12-31T23:59:59-01:00',
      'now',
      '',
      new Date(Number.NaN),
      1_769_860_800_000 as never,
    ])('V4 %s is not a valid instant', async (at) => {
      const id = await tables.order()
      const call = applyIfNewer(db(), 'orders', {
        where: { id },
        column: 'updated_at',
        at,
        set: { total: 1 },
      })
      expect(await failureOf(call)).toBeInstanceOf(InvalidOptionError)
      expect(await tables.read(id)).toMatchObject({ updatedAt: null })
    })

    test('V4 an insert with another key, or an insert that conflicts with another row by another unique key', async () => {
      const id = await tables.order()
      const options = { where: { id }, column: 'updated_at', at: new Date(), set: { total: 1 } } as const
      const other = applyIfNewer(db(), 'orders', { ...options, insert: newRow('another') })
      expect(await failureOf(other)).toBeInstanceOf(InvalidOptionError)

      const taken = `taken-${id}`
      await target.sql('update orders set other = ? where id = ?', [taken, id])
      const insert = { ...newRow(`${id}-2`), other: taken }
      const collides = applyIfNewer(db(), 'orders', { ...options, where: { id: `${id}-2` }, insert })
      expect(await failureOf(collides)).toBeInstanceOf(Error)
      expect(await tables.read(id)).toMatchObject({ total: 0, updatedAt: null })
      expect(await tables.read(`${id}-2`)).toBeUndefined()
    })

    test('V4 a column that would round the time on MySQL and MariaDB is refused, not rounded', async () => {
      const type = target.engine === 'postgres' ? 'timestamptz' : 'datetime'
      await target.sql('drop table if exists coarse')
      await target.sql(`create table coarse (id varchar(20) primary key, at ${type} not null)`)
      await target.sql("insert into coarse values ('a', '2026-01-31 12:00:00')")
      const apply = (at: string) =>
        applyIfNewer(db(), 'coarse', { where: { id: 'a' }, column: 'at', at, set: {} })
      expect(await apply('2026-01-31T12:00:01Z')).toEqual({ status: 'applied' })
      const precise = await apply('2026-01-31T12:00:01.5Z').catch((error: unknown) => error)
      if (target.engine === 'postgres') expect(precise).toEqual({ status: 'applied' })
      else expect(precise).toBeInstanceOf(InvalidOptionError)
    })
  })
})
