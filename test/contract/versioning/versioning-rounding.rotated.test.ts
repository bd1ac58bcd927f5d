import { InvalidOptionError } from '@txbox/core'
import { RowNotFoundError, applyIfNewer } from '@txbox/versioning'
import { createVersioning } from '@txbox/versioning/sql'
import { CamelCasePlugin } from 'kysely'
import { describe, expect, test } from 'vitest'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import { failureOf, kyselyOf } from '../../support/subjects/versioned-tables.ts'
import { onEachHalfAtOneLevel } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const root = useRoot(
  target,
  target.kinds.find((kind) => kind.library === 'kysely')!,
)
const postgres = target.engine === 'postgres'

interface Tables {
  changedRows: { rowId: string; n: number; changedAt: Date | null }
}

const types = postgres
  ? {
      seconds: 'timestamptz(0)',
      millis: 'timestamptz(3)',
      micros: 'timestamptz',
      days: 'date',
      domain: 'rough_time',
    }
  : { seconds: 'datetime', millis: 'datetime(3)', micros: 'datetime(6)', days: 'date' }
/** The number of decimals of a second that each type holds; a date holds no time at all. */
const DECIMALS: Record<string, number> = { seconds: 0, millis: 3, micros: 6, days: -1, domain: 3 }

onEachHalfAtOneLevel(target, (subject) => {
  describe.each(Object.entries(types))('a column of %s: %s', (name, type) => {
    const decimals = DECIMALS[name]!
    const table = `changed_rows_${name}`
    // Kysely's functions work with names that a plugin converts.
    const db = () =>
      kyselyOf(target, subject.root)
        .withPlugin(new CamelCasePlugin())
        .withTables<Record<string, Tables['changedRows']>>()

    const create = async (before: string | null): Promise<void> => {
      if (name === 'domain') {
        await target.sql('drop domain if exists rough_time cascade')
        await target.sql('create domain rough_time as timestamptz(3)')
      }
      await target.sql(`drop table if exists ${table}`)
      await target.sql(
        `create table ${table} (row_id varchar(20) primary key, n integer, changed_at ${type})`,
      )
      if (before !== 'no row') await target.sql(`insert into ${table} values ('a', 0, ?)`, [before])
    }
    const apply = (at: string, n: number, inserting: boolean) =>
      subject.half === 'Kysely'
        ? applyByKysely(at, n, inserting)
        : subject.applyIfNewer(subject.db, table, {
            where: { row_id: 'a' },
            column: 'changed_at',
            at,
            set: { n },
            ...(inserting && { insert: { row_id: 'a', n, changed_at: null } }),
          })
    const applyByKysely = (at: string, n: number, inserting: boolean) =>
      applyIfNewer(db(), `changedRows${name[0]!.toUpperCase()}${name.slice(1)}`, {
        where: { rowId: 'a' },
        column: 'changedAt',
        at,
        set: { n },
        ...(inserting && { insert: { rowId: 'a', n, changedAt: null } }),
      })
    const current = async () => (await target.sql(`select n from ${table}`))[0]?.['n']

    const digits = (count: number, value: number) => String(value).padStart(count, '0')
    describe.each([
      ['a row with a time', '2026-01-31 12:00:00', false],
      ['a row without a time', null, false],
      ['a row with a time, and insert', '2026-01-31 12:00:00', true],
      ['a row without a time, and insert', null, true],
      ['no row, and insert', 'no row', true],
    ] as const)('%s', (_, before, inserting) => {
      test.each([0, 1, 3, 4, 6])(
        'V4 of two changes, %i decimals apart, the older one never overwrites the newer one',
        async (needed) => {
          await create(before)
          const [older, newer] = [3, 4].map((value) =>
            needed === 0 ? `2026-02-01T12:00:0${value}Z` : `2026-02-01T12:00:01.${digits(needed, value)}Z`,
          ) as [string, string]
          if (needed <= decimals) {
            expect(await apply(newer, 4, inserting)).toEqual({ status: 'applied' })
            expect(await apply(older, 3, inserting)).toEqual({ status: 'stale' })
            expect(await current()).toBe(4)
          } else {
            expect(await failureOf(apply(newer, 4, inserting))).toBeInstanceOf(InvalidOptionError)
            expect(await failureOf(apply(older, 3, inserting))).toBeInstanceOf(InvalidOptionError)
            expect(await current()).toBe(before === 'no row' ? undefined : 0)
          }
        },
      )
    })
  })
})

test('V4 the column is found in the schema or database that Kysely is configured with', async () => {
  const type = postgres ? 'timestamptz(0)' : 'datetime'
  const [[where] = []] = postgres
    ? [['elsewhere']]
    : (await target.sql('select database() as name')).map((row) => [String(row['name'])])
  if (postgres) await target.sql('create schema elsewhere')
  const name = postgres ? 'elsewhere.placed' : 'placed'
  await target.sql(`create table ${name} (id varchar(20) primary key, at ${type})`)
  type Placed = Record<string, { id: string; at: Date | null }>
  const kysely = kyselyOf(target, root).withTables<Placed>()
  const options = { where: { id: 'a' }, column: 'at', set: {} } as const
  for (const [db, table] of [
    [kysely.withSchema(where!), 'placed'],
    [kysely, `${where}.placed`],
  ] as const) {
    await target.sql(`delete from ${name}`)
    for (const insert of [undefined, { id: 'a', at: null }]) {
      const rough = applyIfNewer(db, table, { ...options, at: '2026-02-01T12:00:01.4Z', insert })
      expect(await failureOf(rough)).toBeInstanceOf(insert ? InvalidOptionError : RowNotFoundError)
    }
    const fine = { ...options, at: '2026-02-01T12:00:01Z', insert: { id: 'a', at: null } }
    expect(await applyIfNewer(db, table, fine)).toEqual({ status: 'applied' })
    const rough = applyIfNewer(db, table, { ...options, at: '2026-02-01T12:00:01.4Z' })
    expect(await failureOf(rough)).toBeInstanceOf(InvalidOptionError)
  }
  const versioning = createVersioning({ database: root.database })
  const table = `${where}.placed`
  const apply = (at: string) =>
    root.database.transact((tx) =>
      versioning.applyIfNewer(tx, table, { ...options, at, insert: { id: 'a' } }),
    )
  await target.sql(`delete from ${name}`)
  expect(await failureOf(apply('2026-02-01T12:00:01.4Z'))).toBeInstanceOf(InvalidOptionError)
  expect(await apply('2026-02-01T12:00:01Z')).toEqual({ status: 'applied' })
  expect(await failureOf(apply('2026-02-01T12:00:01.4Z'))).toBeInstanceOf(InvalidOptionError)
  expect(await apply('2026-02-01T12:00:01Z')).toEqual({ status: 'stale' })
})
