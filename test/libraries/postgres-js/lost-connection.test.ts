import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError, type TransactionHandle } from '@txbox/core'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { libraryUnderTest } from '../../support/engines/library-roots.ts'
import { useTarget, type Root } from '../../support/engines/target.ts'

// postgres.js uses the object of a lost connection again, for the connection that replaces it.

const target = useTarget()
const { exec } = libraryUnderTest!

function singleConnection(): Root {
  const single = target.open(target.kinds[0]!, { max: 1 })
  onTestFinished(() => single.close())
  return single
}

async function kill(tx: TransactionHandle): Promise<void> {
  const [row] = await exec(tx, 'select pg_backend_pid() as pid', [])
  await target.sql('select pg_terminate_backend(?)', [row!['pid']])
}

async function expectNextAlone(
  subject: InboxUnderTest,
  { status }: { readonly status: string },
  effects: number,
): Promise<void> {
  expect([status, await subject.claimedKeys(), await subject.effects()]).toEqual([
    'processed',
    ['next'],
    effects,
  ])
}

for (const isFailing of [false, true]) {
  test(`the ROLLBACK of a lost transaction does not undo the next one on its connection (fails: ${isFailing})`, async () => {
    const subject = new InboxUnderTest(target, singleConnection())
    const killed = Promise.withResolvers<void>()
    const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const lost = subject.inbox.run({ id: 'lost' }, async (tx) => {
      await kill(tx)
      killed.resolve()
      await begun.promise
      ended.resolve()
      if (isFailing) throw new Error('of the handler')
    })
    const refused = expect(lost).rejects.toThrow(DatabaseUnavailableError)
    await killed.promise
    const next = await subject.inbox.run({ id: 'next' }, async (tx, message, context) => {
      await subject.handle(tx, message, context)
      begun.resolve()
      await ended.promise
      for (let turn = 0; turn < 3; turn++) await setImmediate()
      await subject.handle(tx, message, context)
    })
    await refused
    await expectNextAlone(subject, next, 2)
  })
}

interface Sql {
  (text: TemplateStringsArray, ...values: unknown[]): Promise<unknown>
  unsafe(text: string, parameters?: readonly unknown[]): Promise<unknown>
  notify(channel: string, payload: string): Promise<unknown>
  savepoint(work: (sql: Sql) => unknown): Promise<unknown>
}

/** The statements that a handler may send after its connection was lost. */
const STATEMENTS: Readonly<Record<string, (sql: Sql, name: string) => Promise<unknown>>> = {
  'a tagged template': (sql, name) => sql`insert into effects (name) values (${name})`,
  unsafe: (sql, name) => sql.unsafe('insert into effects (name) values ($1)', [name]),
  notify: (sql, name) => sql.notify('effects', name),
  'a savepoint': (sql, name) => sql.savepoint((own) => own`insert into effects (name) values (${name})`),
}

for (const way of ['run', 'transact'] as const) {
  test(`statements of a handler on a lost connection are refused, and run in no other transaction (${way})`, async () => {
    const single = singleConnection()
    const subject = new InboxUnderTest(target, single)
    const killed = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const refusals = Promise.withResolvers<unknown[]>()
    const lose = async (tx: object): Promise<void> => {
      const sql = tx as Sql
      await sql.savepoint(async (own) => {
        await kill(tx as TransactionHandle)
        killed.resolve()
        await begun.promise
        const attempts = [sql, own].flatMap((each) =>
          Object.values(STATEMENTS).map((send) => send(each, subject.consumer)),
        )
        refusals.resolve((await Promise.allSettled(attempts)).map(({ status }) => status))
        // postgres.js would roll the savepoint back in the transaction that has the connection now.
        throw new Error('of the handler')
      })
    }
    const lost = way === 'run' ? subject.inbox.run({ id: 'lost' }, lose) : single.database.transact(lose)
    const refused = expect(lost).rejects.toThrow(DatabaseUnavailableError)
    await killed.promise
    const next = await subject.inbox.run({ id: 'next' }, async (tx, message, context) => {
      begun.resolve()
      expect(await refusals.promise).toEqual(Array.from({ length: 8 }, () => 'rejected'))
      for (let turn = 0; turn < 3; turn++) await setImmediate()
      await subject.handle(tx, message, context)
    })
    await refused
    await expectNextAlone(subject, next, 1)
  })
}

test('statements on a lost connection that nothing has replaced do not end the process', async () => {
  const subject = new InboxUnderTest(target, singleConnection())
  const lost = Promise.withResolvers<void>()
  const refusals = Promise.withResolvers<unknown[]>()
  const running = subject.inbox.run({ id: 'lost' }, async (tx) => {
    await kill(tx)
    await lost.promise
    const attempts = Object.values(STATEMENTS).map((send) => send(tx as unknown as Sql, subject.consumer))
    refusals.resolve((await Promise.allSettled(attempts)).map(({ status }) => status))
  })
  await expect(running).rejects.toThrow(DatabaseUnavailableError)
  lost.resolve()
  expect(await refusals.promise).toEqual(['rejected', 'rejected', 'rejected', 'rejected'])
  // postgres.js writes to the socket in the next turn.
  await setImmediate()
  expect(await subject.effects()).toBe(0)
})

test('a handler uses fragments, lists of queries, parameters and savepoints as without txbox', async () => {
  const subject = new InboxUnderTest(target, singleConnection())
  await subject.inbox.run({ id: 'm' }, async (tx) => {
    const sql = tx as unknown as Sql & {
      (list: readonly object[]): unknown
      json(value: unknown): unknown
      savepoint(name: string, work: (own: Sql) => unknown): Promise<unknown>
    }
    const name = subject.consumer
    await sql`insert into effects ${sql([{ name }])} ${sql`on conflict do nothing`}`
    expect(await sql`select ${sql.json({ a: 1 })} as value`).toEqual([{ value: { a: 1 } }])
    const insert = (own: Sql): Promise<unknown> => own`insert into effects (name) values (${name})`
    expect(await sql.savepoint('named', (own) => [insert(own), insert(own)])).toHaveLength(2)
    const failing = sql.savepoint(async (own) => {
      await insert(own)
      await own.savepoint(() => Promise.reject(new Error('of the savepoint')))
    })
    await expect(failing).rejects.toThrow('of the savepoint')
  })
  expect([await subject.claimedKeys(), await subject.effects()]).toEqual([['m'], 3])
})
