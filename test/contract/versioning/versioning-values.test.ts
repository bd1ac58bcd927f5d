import { randomUUID } from 'node:crypto'
import { createVersioning, stateMachine } from '@txbox/versioning/sql'
import type { TransactionHandle } from '@txbox/core'
import { beforeAll, describe, expect, test } from 'vitest'
import { kindsOfTier, useRoot, useTarget } from '../../support/engines/target.ts'
import { VALUES, createTableOfAllTypes } from '../../support/subjects/table-of-all-types.ts'
import { failureOf } from '../../support/subjects/versioned-tables.ts'

const target = useTarget()
const isPostgres = target.engine === 'postgres'

beforeAll(() => createTableOfAllTypes(target))

for (const kind of kindsOfTier(target)) {
  describe(kind.name, () => {
    const root = useRoot(target, kind)
    const versioning = () => createVersioning({ database: root.database })
    const stored = async (): Promise<string> => {
      const id = randomUUID()
      await target.sql('insert into things (id, version) values (?, 1)', [id])
      return id
    }
    const set = (id: string, values: object) =>
      root.database.transact((tx) =>
        versioning().updateVersioned(tx, 'things', { where: { id }, expected: 1, set: values }),
      )
    const seen = async (id: string) => {
      let row: Record<string, unknown> = {}
      await versioning().updateMerged(root.db, 'things', {
        where: { id },
        merge: (found) => ((row = found), {}),
      })
      return row
    }

    test('V5 what set writes, merge sees, the same through every library', async () => {
      const id = await stored()
      await set(id, VALUES)
      expect(await seen(id)).toStrictEqual({
        ...VALUES,
        id,
        version: 2,
        // MySQL and MariaDB have numbers for truth values.
        flag: isPostgres ? true : 1,
      })
    })

    test('V5 null, empty and extreme values', async () => {
      const id = await stored()
      const extreme = {
        ...{ small: 32_767, big: -(2n ** 63n), price: '-0.0001', ratio: 5e-324, rough: 1.1, flag: false },
        ...{ doc: {}, plain: null, at: new Date('1970-01-01T00:00:00.000Z'), wall: null, day: null },
        ...{ bytes: new Uint8Array(), words: '', mood: 'ok' },
      }
      await set(id, extreme)
      expect(await seen(id)).toStrictEqual({
        ...{ ...extreme, id, version: 2, flag: isPostgres ? false : 0 },
        rough: Math.fround(1.1),
      })
    })

    test('V5 numbers of every size are stored exactly', async () => {
      for (const [value, text] of [
        [1.5, '1.5000'],
        [-0, '0.0000'],
        [2 ** 53, '9007199254740992.0000'],
        [1e15, '1000000000000000.0000'],
        [0.0001, '0.0001'],
        [10n ** 15n, '1000000000000000.0000'],
      ] as const) {
        const id = await stored()
        await set(id, { price: value })
        expect((await seen(id))['price']).toBe(text)
      }
    })

    test('V5 a version beyond 2^53 is a bigint, and a column that was added later is seen', async () => {
      const id = await stored()
      await seen(id)
      await target.sql('update things set version = ? where id = ?', [String(2n ** 53n), id])
      const merged = versioning().updateMerged(root.db, 'things', { where: { id }, merge: () => ({}) })
      expect(await merged).toEqual({ version: 2n ** 53n + 1n, attempts: 1 })
      await target.sql('alter table things add later integer')
      await target.sql('update things set later = 5 where id = ?', [id])
      expect(await seen(id)).toMatchObject({ later: 5 })
      await target.sql('alter table things drop column later')
      expect(await failureOf(seen(id))).toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
      expect(Object.keys(await seen(id))).not.toContain('later')
    })

    test('V3 values that are no values, and columns that are not to be set, are refused before any SQL', async () => {
      const id = await stored()
      class Expression {
        readonly sql = 'total + 1'
      }
      for (const values of [
        { small: Number.NaN },
        { small: Number.POSITIVE_INFINITY },
        { small: () => 1 },
        { small: new Expression() },
        { small: Symbol('x') },
        { at: new Date(Number.NaN) },
        { at: new Date(8.64e15) },
        { doc: { big: 1n } },
        { doc: new Map([['a', 1]]) },
        { id: 'another' },
        { version: 7 },
        { [`c${'x'.repeat(64)}`]: 1 },
      ]) {
        const failure = await failureOf(set(id, values))
        expect(failure).toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
        expect(String(failure)).toMatch(/^InvalidOptionError: updateVersioned/)
      }
      // Undefined is left out, as in JSON.
      await set(id, { words: undefined, mood: 'set' })
      expect(await seen(id)).toMatchObject({ mood: 'set', words: null })
    })

    test('V3 tables and columns that the database does not have are named, with the statement', async () => {
      const id = await stored()
      for (const [call, name] of [
        [
          (tx: TransactionHandle) =>
            versioning().updateVersioned(tx, 'nothings', { where: { id }, expected: 1, set: {} }),
          'nothings',
        ],
        [
          (tx: TransactionHandle) =>
            versioning().updateVersioned(tx, 'things', { where: { nope: id }, expected: 1, set: {} }),
          'nope',
        ],
        [
          (tx: TransactionHandle) =>
            versioning().updateVersioned(tx, 'things', { where: { id }, expected: 1, set: { nope: 1 } }),
          'nope',
        ],
        [
          (tx: TransactionHandle) =>
            versioning().applyIfNewer(tx, 'things', {
              where: { id },
              column: 'nope',
              at: new Date(),
              set: {},
            }),
          'nope',
        ],
        [
          (tx: TransactionHandle) =>
            versioning().updateMerged(tx, 'nothings', { where: { id }, merge: () => ({}) }),
          'nothings',
        ],
        [
          (tx: TransactionHandle) =>
            versioning().updateMerged(tx, 'things', {
              where: { id },
              merge: () => ({}),
              versionColumn: 'nope',
            }),
          'nope',
        ],
        [
          (tx: TransactionHandle) =>
            versioning().deleteVersioned(tx, 'a.b.c', { where: { id }, expected: 1 }),
          'a.b.c',
        ],
      ] as const) {
        const failure = await failureOf(root.database.transact<unknown>((tx) => call(tx)))
        expect(failure).toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
        expect(String(failure)).toContain(name)
      }
    })

    test('V1 a root, or a client outside of a transaction, is refused, and nothing is written', async () => {
      const id = await stored()
      const options = { where: { id }, expected: 1, set: { mood: 'written' } }
      const detached = createVersioning({ database: target.detached() })
      const machine = stateMachine({ a: ['b'], b: [] })
      for (const call of [
        versioning().updateVersioned(root.db as never, 'things', options),
        versioning().deleteVersioned(root.db as never, 'things', { where: { id }, expected: 1 }),
        versioning().transition(root.db as never, 'things', {
          where: { id },
          column: 'mood',
          to: 'b',
          machine,
        }),
        detached.updateVersioned(root.db as never, 'things', options),
        detached.updateMerged(root.db, 'things', { where: { id }, merge: () => ({ mood: 'written' }) }),
      ])
        // A library that txbox only knows by its transactions has no root.
        expect(await failureOf(call)).toMatchObject({
          code: expect.stringMatching(/^TXBOX_(?:NOT_IN|UNSUPPORTED)_TRANSACTION$/) as string,
        })
      const transaction = await root.begin()
      await transaction.commit()
      expect(
        await failureOf(versioning().updateVersioned(transaction.tx as never, 'things', options)),
      ).toMatchObject({ code: 'TXBOX_NOT_IN_TRANSACTION' })
      expect(await seen(id)).toMatchObject({ mood: null, version: 1 })
      // Without a db, a transaction is enough.
      await root.database.transact((tx) =>
        detached.updateVersioned(tx, 'things', { ...options, expected: 2 }),
      )
      expect(await seen(id)).toMatchObject({ mood: 'written', version: 3 })
    })

    test('V1 a trigger that changes the version: PostgreSQL returns its version, the others that of the call', async () => {
      await target.sql('create table triggered (id varchar(10) primary key, version integer not null)')
      await target.sql("insert into triggered values ('a', 1)")
      if (isPostgres) {
        await target.sql(
          `create function push() returns trigger language plpgsql as $$ begin new.version = new.version + 10; return new; end $$`,
        )
        await target.sql(
          'create trigger push before update on triggered for each row execute function push()',
        )
      } else {
        await target.sql(
          'create trigger push before update on triggered for each row set new.version = new.version + 10',
        )
      }
      try {
        const options = { where: { id: 'a' }, expected: 1, set: {} }
        const update = root.database.transact((tx) => versioning().updateVersioned(tx, 'triggered', options))
        expect(await update).toEqual({ version: isPostgres ? 12 : 2 })
        const merged = versioning().updateMerged(root.db, 'triggered', {
          where: { id: 'a' },
          merge: () => ({}),
        })
        expect(await merged).toEqual({ version: isPostgres ? 23 : 13, attempts: 1 })
      } finally {
        await target.sql('drop table triggered')
        if (isPostgres) await target.sql('drop function push')
      }
    })
  })
}
