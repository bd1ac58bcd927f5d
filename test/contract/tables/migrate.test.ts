import { Kysely, MysqlDialect, PostgresDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import { beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { SchemaError } from '@txbox/core'
import * as onMysql from '@txbox/mysql'
import * as onPostgres from '@txbox/postgres'
import {
  contentOf,
  dropTables,
  fillTables,
  migrationsOf,
  namesOf,
  shapeOf,
  statementsOf,
  tableIn,
} from '../../support/engines/migrations.ts'
import * as mysqlRoots from '../../support/engines/mysql-pool.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { poolOf } from '../../support/engines/postgres-pool.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { onEachKind, useTarget, type Target } from '../../support/engines/target.ts'

const target = useTarget({ migrated: false })
const connection = useOutboxTarget(target, { migrated: false })
const NAMES = namesOf(target)

/** The functions of the engine's package, on a schema or prefix. */
function packageOf({ engine }: Target) {
  return engine === 'postgres'
    ? {
        migrate: (db: object, schema: string) => onPostgres.migrate(db, { schema }),
        pending: (db: object, schema: string) => onPostgres.pendingMigrations(db, { schema }),
        provider: (schema: string) => onPostgres.migrationProvider({ schema }),
      }
    : {
        migrate: (db: object, prefix: string) => onMysql.migrate(db, { prefix }),
        pending: (db: object, prefix: string) => onMysql.pendingMigrations(db, { prefix }),
        provider: (prefix: string) => onMysql.migrationProvider({ prefix }),
      }
}
const { migrate, pending, provider } = packageOf(target)

function open(kind = target.kinds[0]!, through?: Proxy): object {
  const root = target.open(kind, through === undefined ? {} : { through })
  onTestFinished(() => root.close())
  return root.db
}

/** The Kysely of a user who has a Migrator. */
function ownKysely(): Kysely<unknown> {
  const url = connection.url()
  const db = new Kysely<unknown>({
    dialect:
      target.engine === 'postgres'
        ? new PostgresDialect({ pool: poolOf(url, { max: 2 }) })
        : new MysqlDialect({ pool: mysqlRoots.poolOf(url, { connectionLimit: 2 }) }),
  })
  onTestFinished(() => db.destroy())
  return db
}

function numberOf(name: string): number {
  return Number(name.slice(0, 4))
}

/** Describes the tables that an undisturbed migrate creates. */
let cleanShape: readonly string[] = []
beforeAll(async () => {
  const root = target.open(target.kinds[0]!)
  await migrate(root.db, 'clean')
  cleanShape = await shapeOf(target, 'clean')
  await root.close()
})

onEachKind(target, (kind) => {
  test('pendingMigrations lists the migrations that migrate would apply, and changes nothing', async () => {
    const where = `pending ${kind.name.length}`
    expect((await pending(open(kind), where)).map(({ name }) => name)).toEqual(NAMES)
    expect(await shapeOf(target, where)).toEqual([])
    expect((await migrate(open(kind), where)).applied).toEqual(NAMES)
    expect(await pending(open(kind), where)).toEqual([])
    expect((await migrate(open(kind), where)).applied).toEqual([])
  })
})

/** Every migration; in the quick tier every third one, counted from the newest. */
const MIGRATIONS = [...NAMES.keys()].filter(
  (index) => inject('tier') === 'all' || (NAMES.length - 1 - index) % 3 === 0,
)

test.for(MIGRATIONS)('migration %# is applied to filled tables of the previous migrations', async (index) => {
  const where = `step ${index} `
  const files = migrationsOf(target, where)
  const filled: string[] = []
  for (const { name, sql } of files.slice(0, index)) {
    for (const statement of statementsOf(sql)) await target.sql(statement)
    filled.push(...(await fillTables(target, where, numberOf(name))))
  }
  const before = await Promise.all(filled.map((table) => contentOf(target, where, table)))
  expect(before.flat().length).toBe(filled.length)

  // First only this migration, then all later ones.
  for (const statement of statementsOf(files[index]!.sql)) await target.sql(statement)
  await fillTables(target, where, numberOf(files[index]!.name))
  expect((await migrate(open(), where)).applied).toEqual(NAMES.slice(index + 1))
  for (const [n, table] of filled.entries()) {
    expect(await contentOf(target, where, table)).toEqual(
      before[n]!.map((row) => expect.objectContaining(row)),
    )
  }
  expect(await shapeOf(target, where)).toEqual(cleanShape)
  await dropTables(target, where)
})

test('every file is safe to run again, on tables with rows', async () => {
  const where = 'again '
  for (const round of [1, 2]) {
    for (const { sql } of migrationsOf(target, where)) {
      for (const statement of statementsOf(sql)) await target.sql(statement)
    }
    if (round === 1) for (const name of NAMES) await fillTables(target, where, numberOf(name))
  }
  expect((await contentOf(target, where, 'inbox')).length).toBe(1)
  expect((await contentOf(target, where, 'migrations')).length).toBe(NAMES.length)
  expect(await shapeOf(target, where)).toEqual(cleanShape)
})

describe('a crash', () => {
  /** Each statement reaches the server on its own. */
  const steps = migrationsOf(target, 'x').flatMap(({ sql }) => statementsOf(sql))

  // The quick tier tests every eighth step.
  const every = inject('tier') === 'all' ? 1 : 8

  test.for([...steps.keys()].filter((index) => index % every === 0))(
    'after step %#, and before the first one: called again, migrate brings the tables up to date',
    async (index) => {
      // Before a later step the server is in the same state as after the previous step.
      for (const when of index === 0 ? (['cutBefore', 'cutAfter'] as const) : (['cutAfter'] as const)) {
        const where = `${when} ${index} `
        const step = migrationsOf(target, where).flatMap(({ sql }) => statementsOf(sql))[index]!
        const proxy = await Proxy.to(target.address())
        onTestFinished(() => proxy.close())
        // The beginning identifies a statement: it contains the name of a table, or the number of a migration.
        proxy[when](new RegExp(step.slice(0, 300).replaceAll(/[^\w\s]/g, '\\$&')))
        await expect(migrate(open(target.kinds[1], proxy), where)).rejects.toThrow()
        await migrate(open(), where)
        expect(await shapeOf(target, where)).toEqual(cleanShape)
        expect((await contentOf(target, where, 'migrations')).length).toBe(NAMES.length)
        await dropTables(target, where)
      }
    },
  )
})

test('services that start together share one lock, whatever library they use', async () => {
  const roots = [...target.kinds, ...target.kinds].map((kind) => open(kind))
  const applied = await Promise.all(roots.map((root) => migrate(root, 'together ')))
  expect(applied.map((result) => result.applied).filter((names) => names.length > 0)).toEqual([NAMES])
})

test('the lock is free again after its holder has died', async () => {
  const proxy = await Proxy.to(target.address())
  onTestFinished(() => proxy.close())
  const held = proxy.hold(/create table/)
  const dying = migrate(open(target.kinds[1], proxy), 'dies ').catch((error: unknown) => error)
  await held.reached
  const waiting = migrate(open(), 'dies ')
  proxy.cut()
  held.letGo()
  expect(await dying).toBeInstanceOf(Error)
  expect((await waiting).applied).toEqual(NAMES)
})

test('a later revision is refused by migrate and pendingMigrations, and named', async () => {
  await migrate(open(), 'later ')
  const table = tableIn(target, 'later ', 'migrations')
  await target.sql(
    `insert into ${table} (number, title, applied_at) values (9999, 'future', current_timestamp)`,
  )
  for (const call of [migrate, pending]) {
    const refused = await call(open(), 'later ').catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(SchemaError)
    expect((refused as Error).message).toMatch(/have revision 9999.*Upgrade the package/)
  }
})

describe('a Migrator of Kysely', () => {
  const settings = {
    migrationTableName: 'txbox_kysely_migration',
    migrationLockTableName: 'txbox_kysely_migration_lock',
  }

  test('makes the same tables by migrationProvider, and finds nothing to do the second time', async () => {
    const db = ownKysely()
    const migrator = new Migrator({ db, provider: provider('by Kysely '), ...settings })
    const { error, results } = await migrator.migrateToLatest()
    expect(error).toBeUndefined()
    expect(results?.map(({ migrationName }) => migrationName)).toEqual(NAMES.map((name) => `txbox_${name}`))
    expect(await shapeOf(target, 'by Kysely ')).toEqual(cleanShape)
    expect((await migrator.migrateToLatest()).results).toEqual([])
    expect(await pending(open(), 'by Kysely ')).toEqual([])
  })

  test('runs after migrate', async () => {
    await migrate(open(), 'clean')
    const migrator = new Migrator({
      db: ownKysely(),
      provider: provider('clean'),
      migrationTableName: 'another_migration',
      migrationLockTableName: 'another_migration_lock',
    })
    expect((await migrator.migrateToLatest()).error).toBeUndefined()
  })
})
