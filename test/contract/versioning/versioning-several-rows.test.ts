import { InvalidOptionError } from '@txbox/core'
import { applyIfNewer, stateMachine } from '@txbox/versioning'
import { CamelCasePlugin } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf, kyselyOf, useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import {
  onEachHalfAtOneLevel,
  type VersioningUnderTest,
} from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const machine = stateMachine({ pending: ['paid'], paid: [] })

type Call = (on: VersioningUnderTest, tx: object, where: { total: number }) => Promise<unknown>
const calls: Record<string, Call> = {
  updateVersioned: (on, tx, where) =>
    on.updateVersioned(tx, 'orders', { where, expected: 1, set: { note: 'x' } }),
  deleteVersioned: (on, tx, where) => on.deleteVersioned(tx, 'orders', { where, expected: 1 }),
  applyVersion: (on, tx, where) =>
    on.applyVersion(tx, 'orders', { where, from: 1, to: 2, set: { note: 'x' } }),
  applyIfNewer: (on, tx, where) =>
    on.applyIfNewer(tx, 'orders', { where, column: 'updated_at', at: new Date(), set: { note: 'x' } }),
  transition: (on, tx, where) =>
    on.transition(tx, 'orders', { where, column: 'status', to: 'paid', machine }),
  updateMerged: (on, tx, where) => on.updateMerged(tx, 'orders', { where, merge: () => ({ note: 'x' }) }),
}
const untouched = { version: '1', status: 'pending', updatedAt: null }

let total = 1000
onEachHalfAtOneLevel(target, (subject) => {
  describe.each(Object.entries(calls))('%s', (_, call) => {
    test('V3 with a transaction of its own and a where that matches several rows, none of them is changed', async () => {
      total += 1
      const ids = [
        await tables.order({ total }),
        await tables.order({ total }),
        await tables.order({ total }),
      ]
      expect(await failureOf(call(subject, subject.db, { total }))).toBeInstanceOf(InvalidOptionError)
      for (const id of ids) expect(await tables.read(id)).toMatchObject(untouched)
    })

    test('V3 in a transaction it is an error, and the rollback leaves none of them changed', async () => {
      total += 1
      const ids = [await tables.order({ total }), await tables.order({ total })]
      const attempt = subject.inTransaction((tx) => call(subject, tx, { total }))
      expect(await failureOf(attempt)).toBeInstanceOf(InvalidOptionError)
      for (const id of ids) expect(await tables.read(id)).toMatchObject(untouched)
    })
  })
})

beforeAll(async () => {
  const type = target.engine === 'postgres' ? 'timestamptz' : 'datetime(6)'
  await target.sql(
    `create table rates (id integer primary key, currency varchar(3) not null, market varchar(10) not null,
     rate integer not null, at ${type} not null, unique (currency, market))`,
  )
  await target.sql(
    `create table user_rates (currency_code varchar(3) not null unique, rate integer not null, set_at ${type} not null)`,
  )
})

onEachHalfAtOneLevel(target, (subject) => {
  const apply = (currency: string, rate: number, n: number, at = `2026-01-31T12:00:0${n}Z`) =>
    subject.applyIfNewer(subject.db, 'rates', {
      where: { currency },
      column: 'at',
      at,
      set: { rate },
      insert: { id: n, currency, market: 'm', rate, at: new Date(0) },
    })
  const count = async (currency: string) => {
    const [row] = await target.sql('select count(*) as n from rates where currency = ?', [currency])
    return Number(row?.['n'])
  }

  test('V4 a where without a matching unique key is refused, and adds no row', async () => {
    await target.sql('delete from rates')
    for (const n of [1, 2, 3]) expect(await failureOf(apply('EUR', n, n))).toBeInstanceOf(InvalidOptionError)
    expect(await count('EUR')).toBe(0)
    await target.sql("insert into rates values (7, 'USD', 'm', 1, '2026-01-31 00:00:00')")
    expect(await failureOf(apply('USD', 2, 8))).toBeInstanceOf(InvalidOptionError)
    expect(await count('USD')).toBe(1)
  })

  test('V4 a unique key of several columns is accepted', async () => {
    await target.sql('delete from rates')
    const both = (rate: number, n: number) =>
      subject.applyIfNewer(subject.db, 'rates', {
        where: { currency: 'CHF', market: 'm' },
        column: 'at',
        at: `2026-01-31T12:00:0${n}Z`,
        set: { rate },
        insert: { id: 20 + n, currency: 'CHF', market: 'm', rate, at: new Date(0) },
      })
    expect(await both(1, 1)).toEqual({ status: 'applied' })
    expect(await both(2, 2)).toEqual({ status: 'applied' })
    expect(await both(3, 1)).toEqual({ status: 'stale' })
    expect(await count('CHF')).toBe(1)
  })

  if (subject.half !== 'Kysely') return

  test('V4 names that Kysely plugins convert are compared with the names of the keys', async () => {
    type Camel = {
      userRates: { currencyCode: string; rate: number; setAt: Date }
    }
    const camel = kyselyOf(target, subject.root).withPlugin(new CamelCasePlugin()).withTables<Camel>()
    const renamed = (rate: number, at: string) =>
      applyIfNewer(camel, 'userRates', {
        where: { currencyCode: 'JPY' },
        column: 'setAt',
        at,
        set: { rate },
        insert: { currencyCode: 'JPY', rate, setAt: new Date(0) },
      })
    expect(await renamed(1, '2026-01-31T12:00:01.5Z')).toEqual({ status: 'applied' })
    expect(await renamed(2, '2026-01-31T12:00:02.000001Z')).toEqual({ status: 'applied' })
    expect(await renamed(3, '2026-01-31T12:00:02Z')).toEqual({ status: 'stale' })
    expect(await target.sql('select rate from user_rates')).toEqual([{ rate: 2 }])
  })
})
