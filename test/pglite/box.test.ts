import { openAsBlob } from 'node:fs'
import { PGlite } from '@electric-sql/pglite'
import { Kysely, PGliteDialect } from 'kysely'
import { createTxbox } from 'txbox'
import { postgres } from 'txbox/postgres'
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from 'vitest'

function inEnvironment(environment: string | undefined): void {
  vi.stubEnv('NODE_ENV', environment)
  onTestFinished(() => void vi.unstubAllEnvs())
}

/** Making a PGlite takes seconds: the tests share one, with tables of their own. */
let db: PGlite
beforeAll(async () => {
  const prepared = inject('servers')['pglite']!.replace(/^pglite:/, '')
  db = await PGlite.create({ loadDataDir: await openAsBlob(prepared) })
})
afterAll(() => db.close())

test('L1 T1 a box on a new PGlite makes its tables, publishes, handles and stops', async () => {
  inEnvironment(undefined)
  await db.exec('create table orders (id text); create table invoices (order_id text)')
  const box = createTxbox({
    database: postgres({ db }),
    consumers: {
      billing: {
        'order.placed': async (tx, { key }) => {
          await tx.query('insert into invoices values ($1)', [key])
          await box.publish({ type: 'order.billed', key, payload: {} })
        },
      },
      mailer: { handlers: { 'order.billed': () => undefined }, concurrency: 2 },
    },
    logger: false,
  })
  onTestFinished(() => box.stop())
  await box.start()
  await box.transact(async (tx) => {
    await tx.query("insert into orders values ('o1')")
    await box.publish({ type: 'order.placed', key: 'o1', payload: { id: 'o1' } })
  })
  await box.drain({ deadlineMs: 30_000 })
  expect((await db.query('select * from invoices')).rows).toEqual([{ order_id: 'o1' }])
  expect(await box.health()).toMatchObject({ ok: true, oldestDueMs: 0 })
  await box.stop()
})

test('T4 PGlite in production is refused, unless it is allowed', async () => {
  inEnvironment('production')
  const refused = createTxbox({ database: postgres({ db, schema: 'refused' }), migrate: true, logger: false })
  onTestFinished(() => refused.stop())
  for (const call of [() => refused.start(), () => refused.drain()]) {
    await expect(call()).rejects.toMatchObject({
      code: 'TXBOX_INVALID_OPTION',
      message: expect.stringMatching(
        /^createTxbox: the database is PGlite, and NODE_ENV is production.*allowPGlite: true/,
      ),
    })
  }
  expect((await db.query("select to_regnamespace('refused') as there")).rows).toEqual([{ there: null }])
  const allowed = createTxbox({
    database: postgres({ db, schema: 'refused' }),
    migrate: true,
    allowPGlite: true,
    logger: false,
  })
  await allowed.start()
  await allowed.stop()
})

test('T4 PGlite is recognized through Kysely, too', async () => {
  inEnvironment('production')
  const kysely = new Kysely<object>({ dialect: new PGliteDialect({ pglite: db }) })
  const box = createTxbox({ database: postgres({ db: kysely }), logger: false })
  await expect(box.start()).rejects.toThrow(/the database is PGlite/)
  await box.stop()
})

test('T1 on PGlite, earlier tables are updated whatever NODE_ENV is, but for production', async () => {
  inEnvironment(undefined)
  const database = postgres({ db, schema: 'earlier' })
  const first = createTxbox({ database, gc: false, logger: false })
  await first.start()
  await first.stop()
  await db.exec('delete from earlier.migrations where number = (select max(number) from earlier.migrations)')
  const second = createTxbox({ database: postgres({ db, schema: 'earlier' }), gc: false, logger: false })
  await second.start()
  await second.stop()
})
