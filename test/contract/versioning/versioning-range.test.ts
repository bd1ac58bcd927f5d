import { randomUUID } from 'node:crypto'
import { createConsumer, type InboxMessage } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { useTarget } from '../../support/engines/target.ts'
import { failureOf } from '../../support/subjects/versioned-tables.ts'
import { onEachHalfAtOneLevel, onOddRoots } from '../../support/subjects/versioning-under-test.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()

/** The greatest versions of the types, and the types of all databases. */
const TYPES: Record<string, readonly [type: string, greatest: bigint]> = {
  smallint: ['smallint', 2n ** 15n - 1n],
  integer: ['integer', 2n ** 31n - 1n],
  bigint: ['bigint', 2n ** 63n - 1n],
  decimal: ['decimal(5, 0)', 99_999n],
  ...(target.engine === 'postgres'
    ? { domain: ['counted', 2n ** 31n - 1n] }
    : {
        tinyint: ['tinyint', 127n],
        mediumint: ['mediumint', 2n ** 23n - 1n],
        unsigned: ['int unsigned', 2n ** 32n - 1n],
        'bigint unsigned': ['bigint unsigned', 2n ** 64n - 1n],
      }),
}

beforeAll(async () => {
  if (target.engine === 'postgres') await target.sql('create domain counted as integer')
  const columns = Object.values(TYPES).map(([type], n) => `v${n} ${type} not null`)
  await target.sql(`create table counts (id varchar(100) primary key, ${columns.join(', ')})`)
})

async function row(version: bigint): Promise<string> {
  const id = randomUUID()
  const places = Object.values(TYPES).map(([, greatest]) => String(version < greatest ? version : greatest))
  await target.sql(`insert into counts values (?, ${places.map(() => '?').join(', ')})`, [id, ...places])
  return id
}

async function versionOf(id: string, column: string): Promise<string> {
  const text = target.engine === 'postgres' ? 'text' : 'char'
  const [found] = await target.sql(`select cast(${column} as ${text}) as v from counts where id = ?`, [id])
  return String(found?.['v'])
}

onEachHalfAtOneLevel(target, (subject) => {
  const db = () => subject.db
  const guardOf = (column: string, id: string) =>
    subject.versionGuard<{ version: string }>({
      table: 'counts',
      where: () => ({ id }),
      version: ({ payload }: InboxMessage<{ version: string }>) => payload.version,
      versionColumn: column,
    })

  test.each(Object.entries(TYPES).map(([name, [, greatest]], n) => [name, `v${n}`, greatest] as const))(
    'V9 a version that a column of type %s cannot hold is an InvalidMessageError, and nothing is written',
    async (_, versionColumn, greatest) => {
      const id = await row(greatest)
      const options = { where: { id }, versionColumn, set: {} }
      const tooGreat = greatest + 1n
      const guard = guardOf(versionColumn, id)
      const calls = [
        () => subject.applyVersion(db(), 'counts', { ...options, from: greatest, to: tooGreat }),
        () => subject.inTransaction((tx) => guard(tx, { id: 'm', payload: { version: String(tooGreat) } })),
        () => subject.updateMerged(db(), 'counts', { where: { id }, versionColumn, merge: () => ({}) }),
        () => subject.updateVersioned(db(), 'counts', { ...options, expected: greatest }),
        () => subject.deleteVersioned(db(), 'counts', { where: { id }, versionColumn, expected: tooGreat }),
      ]
      for (const call of greatest === 2n ** 64n - 1n ? [] : calls) {
        const failure = await failureOf(call())
        expect(failure).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
        expect(String(failure)).toContain(`'${versionColumn}' cannot hold the version ${tooGreat}`)
      }
      expect(await versionOf(id, versionColumn)).toBe(String(greatest))
      // The greatest version itself is held.
      const below = greatest - 1n
      await target.sql(`update counts set ${versionColumn} = ? where id = ?`, [String(below), id])
      expect(await subject.updateVersioned(db(), 'counts', { ...options, expected: below })).toEqual({
        version: greatest,
      })
      expect(await versionOf(id, versionColumn)).toBe(String(greatest))
    },
  )

  test('V9 after the error the transaction is usable', async () => {
    const id = await row(1n)
    const options = { where: { id }, versionColumn: 'v0', set: {} }
    await subject.inTransaction(async (tx) => {
      await failureOf(subject.applyVersion(tx, 'counts', { ...options, from: 1, to: 2 ** 15 }))
      await subject.applyVersion(tx, 'counts', { ...options, from: 1, to: 2 })
    })
    expect(await versionOf(id, 'v0')).toBe('2')
  })

  test('V9 a column that was altered in the meantime is asked for again', async () => {
    await target.sql('drop table if exists growing')
    await target.sql('create table growing (id varchar(10) primary key, version integer not null)')
    await target.sql("insert into growing values ('a', 200)")
    const apply = (from: number, to: number) =>
      subject.applyVersion(db(), 'growing', { where: { id: 'a' }, from, to, set: {} })
    expect(await apply(200, 201)).toMatchObject({ status: 'applied' })
    expect(await failureOf(apply(201, 2 ** 31))).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
    await target.sql(
      target.engine === 'postgres'
        ? 'alter table growing alter version type bigint'
        : 'alter table growing modify version bigint not null',
    )
    expect(await apply(201, 2 ** 31)).toEqual({ status: 'applied', version: 2 ** 31 })
  })

  test('V9 in a consumer, such a version is a dead letter at once, by a guard and by a handler', async () => {
    const id = await row(1n)
    const guard = guardOf('v0', id)
    for (const guarded of [true, false]) {
      const source = new MemorySource()
      const events: ConsumerUnderTest['events'] = []
      const consumer = createConsumer<TransactionHandle, { version: string }>({
        source: source as never,
        inbox: createInbox({ database: subject.root.database, consumer: randomUUID() }),
        logger: false,
        ...(guarded && { guard }),
        handler: async (tx, { payload }) => {
          const options = { where: { id }, versionColumn: 'v0', from: '1', to: payload.version, set: {} }
          await subject.applyVersion(tx, 'counts', options)
        },
      })
      listen(consumer, events)
      onTestFinished(() => consumer.stop())
      await consumer.start()
      source.send('too great', { payload: { version: '32768' } })
      await until(
        async () => events.some(({ event }) => event === 'dead-lettered'),
        () => `a dead letter: ${JSON.stringify(events)}`,
      )
      expect(events.filter(({ event }) => event === 'retried')).toEqual([])
      await consumer.stop()
    }
    expect(await versionOf(id, 'v0')).toBe('1')
  })
})

describe('settings of the user', () => {
  onOddRoots(target, (odd, half, during) => {
    test(`V9 a version is not clamped: ${odd}, ${half}`, () =>
      during(async (subject) => {
        const id = await row(1n)
        const options = { where: { id }, versionColumn: 'v1', set: {} }
        const table = subject.table('counts')
        await subject.inTransaction(async (tx) => {
          const apply = (to: bigint) => subject.applyVersion(tx, table, { ...options, from: 1n, to })
          expect(await failureOf(apply(2n ** 31n))).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
          expect(await apply(2n ** 31n - 1n)).toEqual({ status: 'applied', version: 2n ** 31n - 1n })
        })
        expect(await versionOf(id, 'v1')).toBe(String(2n ** 31n - 1n))
      }))
  })
})
