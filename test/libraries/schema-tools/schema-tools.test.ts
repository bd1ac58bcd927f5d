import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { createInbox } from '@txbox/inbox'
import * as onMysql from '@txbox/mysql'
import * as onPostgres from '@txbox/postgres'
import type { TransactionHandle } from '@txbox/core'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useTarget } from '../../support/engines/target.ts'
import { load as loadNewest } from '../newest/load.ts'
import { load as loadOldest } from '../oldest/load.ts'

const target = useTarget({ migrated: false })
const connection = useOutboxTarget(target, { migrated: false })
const { engine } = target
const isPostgres = engine === 'postgres'
const VERSIONS = { newest: loadNewest, oldest: loadOldest } as const
type Version = keyof typeof VERSIONS
type Load = (typeof VERSIONS)[Version]

/** Creates the tables of txbox and a claim, and the user's own table as an earlier run of the tool has left it. */
async function prepare(): Promise<{ isThere: () => Promise<boolean> }> {
  const root = target.open(mainKind(target))
  onTestFinished(() => root.close())
  await root.ready?.()
  const { db } = root
  await (isPostgres ? onPostgres.migrate(db) : onMysql.migrate(db as never))
  await target.sql('drop table if exists orders')
  await target.sql(`create table orders (id varchar(40) primary key${isPostgres ? '' : ' not null'})`)
  const inbox = createInbox<TransactionHandle>({
    database: (isPostgres
      ? onPostgres.postgres({ db: db as never })
      : onMysql.mysql({ db: db as never })) as never,
    consumer: 'c',
  })
  await inbox.run({ id: 'a' }, () => undefined)
  return {
    async isThere() {
      const table = isPostgres ? 'txbox.inbox' : 'txbox_inbox'
      const rows = await target.sql(`select consumer from ${table}`).catch(() => [])
      return rows.length === 1
    },
  }
}

function address(): { host: string; port: number; user: string; password: string; dbName: string } {
  const url = new URL(connection.url())
  return {
    host: url.hostname,
    port: Number(url.port === '' ? (isPostgres ? 5432 : 3306) : url.port),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    dbName: url.pathname.slice(1),
  }
}

interface Orm {
  readonly schema?: Generator
  getSchemaGenerator(): Generator
  close(force: boolean): Promise<void>
}
interface Generator {
  update?(): Promise<void>
  updateSchema?(): Promise<void>
}
interface MikroOrm {
  readonly MikroORM: { init(options: object): Promise<Orm> }
  readonly EntitySchema: new (options: object) => unknown
}

async function mikroOrm(load: Load, schemaGenerator: object): Promise<void> {
  const { MikroORM, EntitySchema } = (await load(
    `@mikro-orm/${isPostgres ? 'postgresql' : engine}`,
  )) as MikroOrm
  const orders = new EntitySchema({
    name: 'Order',
    tableName: 'orders',
    properties: { id: { type: 'string', length: 40, primary: true } },
  })
  const orm = await MikroORM.init({ ...address(), entities: [orders], schemaGenerator })
  try {
    const generator = orm.schema ?? orm.getSchemaGenerator()
    await (generator.update === undefined ? generator.updateSchema!() : generator.update())
  } finally {
    void orm.close(true)
  }
}

/** @returns the output of `drizzle-kit push`, which ends with an error where it would ask a question. */
async function drizzlePush(version: Version, filter: string): Promise<string> {
  const modules = path.join(import.meta.dirname, '..', version, 'node_modules')
  await mkdir(path.join(modules, '.cache'), { recursive: true })
  const folder = await mkdtemp(path.join(modules, '.cache', 'schema-tools-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [core, table] = isPostgres ? ['pg-core', 'pgTable'] : ['mysql-core', 'mysqlTable']
  await writeFile(
    path.join(folder, 'schema.ts'),
    `import { ${table}, varchar } from 'drizzle-orm/${core}'
     export const orders = ${table}('orders', { id: varchar('id', { length: 40 }).primaryKey() })`,
  )
  const dialect = isPostgres ? 'postgresql' : 'mysql'
  const credentials = JSON.stringify({ url: connection.url() })
  await writeFile(
    path.join(folder, 'drizzle.config.ts'),
    `export default { dialect: '${dialect}', schema: './schema.ts', dbCredentials: ${credentials}, ${filter} }`,
  )
  const kit = path.join(modules, 'drizzle-kit', 'bin.cjs')
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [kit, 'push', '--force'], {
    cwd: folder,
    env: { ...process.env, CI: 'true' },
    timeout: 60_000,
  }).catch((error: { stdout: string; stderr: string }) => error)
  return stdout + stderr
}

interface TypeOrm {
  readonly DataSource: new (options: object) => { initialize(): Promise<unknown>; destroy(): Promise<void> }
  readonly EntitySchema: new (options: object) => unknown
}

async function typeOrm(load: Load): Promise<void> {
  const { DataSource, EntitySchema } = (await load('typeorm')) as TypeOrm
  const orders = new EntitySchema({
    name: 'Order',
    tableName: 'orders',
    columns: { id: { type: 'varchar', length: 40, primary: true } },
  })
  const source = new DataSource({
    type: engine,
    url: connection.url(),
    entities: [orders],
    synchronize: true,
  })
  await source.initialize()
  await source.destroy()
}

interface Sequelize {
  define(name: string, columns: object, options: object): unknown
  sync(options: object): Promise<unknown>
  close(): Promise<void>
}

async function sequelize(version: Version): Promise<void> {
  const opened = version === 'oldest' ? await sequelize6() : await sequelize7()
  opened.db.define(
    'Order',
    { id: { type: opened.text, primaryKey: true } },
    { tableName: 'orders', timestamps: false },
  )
  for (const options of [{ alter: { drop: true } }, { force: true }]) await opened.db.sync(options)
  await opened.db.close()
}

async function sequelize6(): Promise<{ db: Sequelize; text: unknown }> {
  const module = (await loadOldest('sequelize')) as {
    default: {
      Sequelize: new (url: string, options: object) => Sequelize
      DataTypes: { STRING(n: number): unknown }
    }
  }
  const { Sequelize, DataTypes } = module.default
  const dialect = isPostgres ? 'postgres' : 'mysql'
  return { db: new Sequelize(connection.url(), { dialect, logging: false }), text: DataTypes.STRING(40) }
}

async function sequelize7(): Promise<{ db: Sequelize; text: unknown }> {
  const { Sequelize, DataTypes } = (await loadNewest('@sequelize/core')) as {
    Sequelize: new (options: object) => Sequelize
    DataTypes: { STRING(n: number): unknown }
  }
  const dialects = (await loadNewest(`@sequelize/${isPostgres ? 'postgres' : 'mysql'}`)) as Record<
    string,
    unknown
  >
  const dialect = isPostgres ? dialects['PostgresDialect'] : dialects['MySqlDialect']
  return { db: new Sequelize({ dialect, url: connection.url() }), text: DataTypes.STRING(40) }
}

for (const version of ['newest', 'oldest'] as const) {
  const load = VERSIONS[version]

  test(`the schema generator of MikroORM (${version}) drops the tables of txbox, unless it is told to ignore them`, async () => {
    const kept = await prepare()
    await mikroOrm(load, isPostgres ? { ignoreSchema: ['txbox'] } : { skipTables: [/^txbox_/] })
    expect(await kept.isThere()).toBe(true)
    await mikroOrm(load, {})
    expect(await kept.isThere()).toBe(false)
  })

  test(`drizzle-kit push (${version}) leaves the tables of txbox alone with a filter`, async () => {
    const kept = await prepare()
    const output = await drizzlePush(
      version,
      isPostgres ? "schemaFilter: ['public']" : "tablesFilter: ['!txbox_*']",
    )
    expect(await kept.isThere(), output).toBe(true)
    expect(output).toMatch(/Pulling schema/)
    expect(output).not.toMatch(/txbox/)
  })

  if (!(isPostgres && version === 'oldest')) {
    test(`drizzle-kit push (${version}) takes the tables of txbox for leftovers without the filter`, async () => {
      const kept = await prepare()
      const output = await drizzlePush(version, '')
      if (version === 'oldest') expect(await kept.isThere(), output).toBe(false)
      else expect(output).toMatch(/data loss.*txbox/is)
    })
  }

  test(`synchronize of TypeORM (${version}) leaves the tables of txbox alone`, async () => {
    const kept = await prepare()
    await typeOrm(load)
    expect(await kept.isThere()).toBe(true)
  })

  test(`sync of Sequelize (${version}) leaves the tables of txbox alone`, async () => {
    const kept = await prepare()
    await sequelize(version)
    expect(await kept.isThere()).toBe(true)
  })
}
