import { expect, onTestFinished, test } from 'vitest'
import { SchemaError, portsKey, type ConnectedDatabase, type TransactionHandle } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { createInbox, type Inbox } from '@txbox/inbox'
import * as onMysql from '@txbox/mysql'
import * as onPostgres from '@txbox/postgres'
import { mainKind, useTarget } from '../../support/engines/target.ts'

const target = useTarget({ migrated: false })
const isPostgres = target.engine === 'postgres'

/** Tables at a place of their own: a schema or a prefix. */
async function place(name: string, isMigrated = true) {
  const root = target.open(mainKind(target))
  onTestFinished(() => root.close())
  await root.ready?.()
  const where = isPostgres ? { schema: name } : { prefix: name }
  const database = (isPostgres
    ? onPostgres.postgres({ db: root.db as never, ...where })
    : onMysql.mysql({ db: root.db as never, ...where })) as unknown as ConnectedDatabase<TransactionHandle>
  const tables = async (): Promise<string[]> => {
    const rows = await target.sql(
      isPostgres
        ? `select table_name as name from information_schema.tables where table_schema = '${name}'`
        : `select table_name as name from information_schema.tables where table_schema = database() and table_name like '${name}%'`,
    )
    return rows.map((row) => String(row['name']))
  }
  if (isMigrated)
    await (isPostgres ? onPostgres.migrate(root.db, where) : onMysql.migrate(root.db as never, where))
  return {
    inbox: (): Inbox<TransactionHandle> => createInbox<TransactionHandle>({ database, consumer: 'c' }),
    /** As a schema tool does. */
    drop: async (but?: string): Promise<void> => {
      for (const table of await tables()) {
        if (but !== undefined && table.endsWith(but)) continue
        await target.sql(`drop table ${isPostgres ? `${name}.` : ''}${table}`)
      }
    },
    doctor: () =>
      (database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!.inspection().diagnose({
        longTransactionMs: 60_000,
      }),
    database,
  }
}

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )

test('N2 tables that were never created are missing', async () => {
  const { inbox, doctor } = await place('never_', false)
  const error = await failureOf(inbox().run({ id: 'a' }, () => undefined))
  expect(error).toBeInstanceOf(SchemaError)
  expect(String(error)).toMatch(/missing or have another revision.*Run 'npx txbox migrate'/)
  expect(String(error)).not.toMatch(/gone/)
  expect((await doctor()).find(({ check }) => check === 'revision')).toMatchObject({
    verdict: 'problem',
    found: 'the tables of txbox do not exist here',
  })
})

test('N2 tables that this process has used, and that are dropped, are gone', async () => {
  const { inbox, drop } = await place('used_')
  const one = inbox()
  expect(await one.run({ id: 'a' }, () => undefined)).toMatchObject({ status: 'processed' })
  await drop()
  const error = await failureOf(one.run({ id: 'b' }, () => undefined))
  expect(error).toBeInstanceOf(SchemaError)
  expect(String(error)).toMatch(/tables of txbox are gone.*npx txbox migrate --print/)
})

test('N2 tables that are dropped while the table of migrations is left are gone, for a new process, too', async () => {
  const { inbox, drop, doctor } = await place('left_')
  await drop('migrations')
  const error = await failureOf(inbox().run({ id: 'a' }, () => undefined))
  expect(error).toBeInstanceOf(SchemaError)
  expect(String(error)).toMatch(/tables of txbox are gone/)
  const findings = await doctor()
  expect(findings.filter(({ verdict }) => verdict === 'problem')).toMatchObject([
    { check: 'dropped', found: expect.stringMatching(/gone/), advice: expect.stringMatching(/--print/) },
  ])
})
