import { InvalidOptionError } from '@txbox/core'
import {
  applyIfNewer,
  applyVersion,
  deleteVersioned,
  stateMachine,
  transition,
  updateMerged,
  updateVersioned,
} from '@txbox/versioning'
import { CamelCasePlugin, type Kysely } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import {
  failureOf,
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
const db = () => kyselyOf(target, root)
const machine = stateMachine({ pending: ['paid'], paid: [] })

type Call = (db: Kysely<VersionedTables>, where: { total: number }) => Promise<unknown>
const calls: Record<string, Call> = {
  updateVersioned: (db, where) => updateVersioned(db, 'orders', { where, expected: 1, set: { note: 'x' } }),
  deleteVersioned: (db, where) => deleteVersioned(db, 'orders', { where, expected: 1 }),
  applyVersion: (db, where) => applyVersion(db, 'orders', { where, from: 1, to: 2, set: { note: 'x' } }),
  applyIfNewer: (db, where) =>
    applyIfNewer(db, 'orders', { where, column: 'updated_at', at: new Date(), set: { note: 'x' } }),
  transition: (db, where) => transition(db, 'orders', { where, column: 'status', to: 'paid', machine }),
  updateMerged: (db, where) => updateMerged(db, 'orders', { where, merge: () => ({ note: 'x' }) }),
}
const untouched = { version: '1', status: 'pending', updatedAt: null }

let total = 1000
describe.each(Object.entries(calls))('%s', (_, call) => {
  test('V3 with a root and a where that matches several rows, none of them is changed', async () => {
    total += 1
    const ids = [await tables.order({ total }), await tables.order({ total }), await tables.order({ total })]
    expect(await failureOf(call(db(), { total }))).toBeInstanceOf(InvalidOptionError)
    for (const id of ids) expect(await tables.read(id)).toMatchObject(untouched)
  })

  test('V3 in a transaction it is an error, and the rollback leaves none of them changed', async () => {
    total += 1
    const ids = [await tables.order({ total }), await tables.order({ total })]
    const attempt = db()
      .transaction()
      .execute((tx) => call(tx, { total }))
    expect(await failureOf(attempt)).toBeInstanceOf(InvalidOptionError)
    for (const id of ids) expect(await tables.read(id)).toMatchObject(untouched)
  })
})

describe('applyIfNewer with insert', () => {
  type Rates = {
    rates: { id: number; currency: string; market: string; rate: number; at: Date }
  }
  const rates = () => db().withTables<Rates>()
  const apply = (currency: string, rate: number, n: number, at = `2026-01-31T12:00:0${n}Z`) =>
    applyIfNewer(rates(), 'rates', {
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

  test('V4 a where without a matching unique key is refused, and adds no row', async () => {
    for (const n of [1, 2, 3]) expect(await failureOf(apply('EUR', n, n))).toBeInstanceOf(InvalidOptionError)
    expect(await count('EUR')).toBe(0)
    await target.sql("insert into rates values (7, 'USD', 'm', 1, '2026-01-31 00:00:00')")
    expect(await failureOf(apply('USD', 2, 8))).toBeInstanceOf(InvalidOptionError)
    expect(await count('USD')).toBe(1)
  })

  test('V4 a unique key of several columns is accepted, also with names that Kysely plugins convert', async () => {
    const both = (rate: number, n: number) =>
      applyIfNewer(rates(), 'rates', {
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

    type Camel = {
      userRates: { currencyCode: string; rate: number; setAt: Date }
    }
    const camel = db().withPlugin(new CamelCasePlugin()).withTables<Camel>()
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
