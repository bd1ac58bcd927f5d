import { spawnSync } from 'node:child_process'
import path from 'node:path'
import {
  DummyDriver,
  Kysely,
  MysqlAdapter,
  MysqlQueryCompiler,
  PostgresAdapter,
  PostgresQueryCompiler,
} from 'kysely'
import { expect, test } from 'vitest'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createVersioning } from '@txbox/versioning/sql'

/** Prints which of the given packages a program that imports the entry loads. */
function loadedBy(entry: string, packages: readonly string[]): string {
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({
      resolve(specifier, context, next) {
        if (${JSON.stringify(packages)}.includes(specifier)) loaded.add(specifier)
        return next(specifier, context)
      },
    })
    const { createVersioning } = await import(${JSON.stringify(entry)})
    console.log(typeof createVersioning, [...loaded].join(' '))`
  const cwd = path.join(import.meta.dirname, '..', '..')
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    cwd,
    encoding: 'utf8',
  })
  return `${stdout}${stderr}`.trim()
}

test('the entries for every library load without Kysely, and the entry for Kysely loads it', () => {
  const packages = ['kysely', 'pg', 'mysql2', 'mysql2/promise']
  expect(loadedBy('@txbox/versioning/sql', packages)).toBe('function')
  expect(loadedBy('txbox', packages)).toBe('function')
  expect(loadedBy('@txbox/versioning', packages)).toBe('undefined kysely')
})

test('a transaction of the other kind of database is refused before any SQL, with what to pass', async () => {
  const options = { where: { id: 'a' }, expected: 1, set: {} }
  const onPostgres = new Kysely<object>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: () => undefined as never,
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
  const onMysql = new Kysely<object>({
    dialect: {
      createAdapter: () => new MysqlAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: () => undefined as never,
      createQueryCompiler: () => new MysqlQueryCompiler(),
    },
  })
  for (const [database, db, expected] of [
    [
      mysql(),
      onPostgres,
      'transaction on MySQL or MariaDB, but this Kysely transaction is one on PostgreSQL',
    ],
    [
      postgres(),
      onMysql,
      'transaction on PostgreSQL, but this Kysely transaction is one on MySQL or MariaDB',
    ],
  ] as const) {
    const call = db
      .transaction()
      .execute((tx) => createVersioning({ database }).updateVersioned(tx, 'orders', options))
    await expect(call).rejects.toMatchObject({
      code: 'TXBOX_UNSUPPORTED_TRANSACTION',
      message: expect.stringContaining(expected) as unknown,
    })
  }
})

test('wrong options are refused when they are passed, before a transaction is looked at', async () => {
  for (const wrong of [undefined, {}, { database: {} }, { database: postgres(), schema: 'x' }])
    expect(() => createVersioning(wrong as never)).toThrow(
      expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }) as Error,
    )
  const { applyVersion, deleteVersioned, updateMerged, updateVersioned } = createVersioning({
    database: postgres(),
  })
  const where = { id: 'a' }
  const never = undefined as never
  for (const call of [
    updateVersioned(never, 'orders', { where: {}, expected: 1, set: {} }),
    updateVersioned(never, 'orders', { where, expected: 1.5, set: {} }),
    updateVersioned(never, 'orders', { where, expected: '1.0', set: {} }),
    updateVersioned(never, 'orders', { where, expected: 1, set: { id: 'b' } }),
    updateVersioned(never, 'orders', { where, expected: 1, set: undefined as never }),
    updateVersioned(never, 'orders', { where, expect: 1, set: {} } as never),
    updateVersioned(never, '', { where, expected: 1, set: {} }),
    applyVersion(never, 'orders', { where, from: 2, to: 1, set: {} }),
    deleteVersioned(never, 'orders', { where: { id: { id: 1 } }, expected: 1 }),
    updateMerged(never, 'orders', { where, merge: undefined as never }),
  ])
    await expect(call).rejects.toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
  await expect(updateVersioned(never, 'orders', { where, expected: 1, set: {} })).rejects.toMatchObject({
    code: 'TXBOX_UNSUPPORTED_TRANSACTION',
  })
})
