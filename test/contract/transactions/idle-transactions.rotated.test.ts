import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, MysqlDialect, PostgresDialect } from 'kysely'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { poolOf as mysqlPoolOf } from '../../support/engines/mysql-pool.ts'
import { kyselyRoot as kyselyOfMysql, mysql2Root } from '../../support/engines/mysql-roots.ts'
import { poolOf as postgresPoolOf } from '../../support/engines/postgres-pool.ts'
import { kyselyRoot as kyselyOfPostgres, pgRoot } from '../../support/engines/postgres-roots.ts'
import { databaseUrl } from '../../support/engines/server-outbox-target.ts'
import { useTarget, type Root } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const IDLE = {
  postgres: { setting: 'idle_in_transaction_session_timeout', ms: 100 },
  mysql: { setting: 'wait_timeout', ms: 1000 },
}
const { setting, ms } = IDLE[target.engine === 'postgres' ? 'postgres' : 'mysql']
/** Longer than the server allows. */
const tooLong = (): Promise<void> => sleep(ms * 1.5 + 200)

let url: string
beforeAll(async () => {
  url = await databaseUrl(target)
})

/** A root whose server ends the connection of a transaction that is idle for too long. */
function openRoot(library: 'driver' | 'kysely' = 'driver'): Root {
  const root = target.engine === 'postgres' ? postgresRoot(library) : mysqlRoot(library)
  onTestFinished(() => root.close())
  return root
}

function postgresRoot(library: 'driver' | 'kysely'): Root {
  const pool = postgresPoolOf(url, { options: `-c ${setting}=${ms}` })
  if (library === 'driver') return pgRoot(pool, {})
  return kyselyOfPostgres(new Kysely({ dialect: new PostgresDialect({ pool }) }), {})
}

function mysqlRoot(library: 'driver' | 'kysely'): Root {
  const pool = mysqlPoolOf(url, {}, [`set session ${setting} = ${ms / 1000}`])
  if (library === 'driver') return mysql2Root(pool, {}, 'promise')
  return kyselyOfMysql(new Kysely({ dialect: new MysqlDialect({ pool }) }), {})
}

// MariaDB closes the connection without a reason.
if (target.engine !== 'mariadb') {
  const REASON = new RegExp(`idle for longer than ${setting}.*Raise.*or make the handler quicker`)

  test('I10 run and transact reject with the reason of the server if the handler sends nothing more', async () => {
    const root = openRoot()
    const subject = new InboxUnderTest(target, root)
    for (const work of [
      () => subject.inbox.run({ id: 'x' }, tooLong),
      () => root.database.transact(tooLong),
    ]) {
      const error: unknown = await work().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(TransactionAbortedError)
      expect(String(error)).toMatch(REASON)
      expect(String(Reflect.get(error as object, 'cause'))).toMatch(/idle-in-transaction timeout|inactivity/)
    }
  })

  test("I2 the driver's error of a later statement of the handler is rethrown as it is, and its cause is the reason", async () => {
    const root = openRoot()
    const subject = new InboxUnderTest(target, root)
    let own: unknown
    const error: unknown = await subject.inbox
      .run({ id: 'x' }, async (tx) => {
        await tooLong()
        await target.effect(tx, 'late').catch((thrown: unknown) => {
          own = thrown
          throw thrown
        })
      })
      .catch((thrown: unknown) => thrown)
    expect(error).toBe(own)
    const { cause } = error as { cause: unknown }
    expect(cause).toBeInstanceOf(TransactionAbortedError)
    expect(String(cause)).toMatch(REASON)
  })

  test("I2 a handler's own error is rethrown without any change", async () => {
    const subject = new InboxUnderTest(target, openRoot())
    const own = new Error('the handler failed')
    const running = subject.inbox.run({ id: 'x' }, async () => {
      await tooLong()
      throw own
    })
    await expect(running).rejects.toBe(own)
    expect(own.cause).toBeUndefined()
  })

  test('C11 a handler that is always slower than the server allows has failed: its message becomes a dead letter, with the reason', async () => {
    const root = openRoot()
    const outbox = createOutbox({ database: root.database })
    const name = `consumer-${randomUUID()}`
    const source = new MemorySource()
    const events: ConsumerUnderTest['events'] = []
    const consumer = createConsumer({
      source,
      inbox: createInbox<TransactionHandle>({ database: root.database, consumer: name }),
      retry: { attempts: 2, delayMs: () => 1 },
      logger: false,
      handler: async (tx, { id }) => {
        if (id !== 'quick') await tooLong()
        if (id === 'sql') await target.effect(tx, name)
        if (id === 'outbox') await outbox.publish(tx as never, { topic: 't', payload: 1 })
        if (id === 'quick') await target.effect(tx, name)
      },
    })
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    const ids = ['silent', 'sql', 'outbox', 'quick']
    for (const id of ids) source.send(id)
    const emitted = (event: string): ConsumerUnderTest['events'] =>
      events.filter((one) => one.event === event)
    await until(
      async () => emitted('dead-lettered').length === 3 && emitted('handled').length === 1,
      () =>
        JSON.stringify(
          events.map(({ event, id, value }) => [event, id, String(Reflect.get(value, 'error'))]),
        ),
    )
    expect(emitted('unavailable')).toEqual([])
    for (const { value } of [...emitted('retried'), ...emitted('dead-lettered')]) {
      const error: unknown = Reflect.get(value, 'error')
      expect(`${String(error)} ${String(Reflect.get(error as object, 'cause'))}`).toMatch(REASON)
    }
    expect(await target.effects(name)).toBe(1)
  })
}

// Kysely hides the client of `pg`, and MariaDB gives no reason.
test('C24 a connection that ends without a reason while a handler runs is an outage, whose event names the setting', async () => {
  const root = openRoot('kysely')
  const source = new MemorySource()
  let isSlow = true
  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({
    source,
    inbox: createInbox<TransactionHandle>({ database: root.database, consumer: `consumer-${randomUUID()}` }),
    logger: false,
    handler: async () => (isSlow ? tooLong() : undefined),
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await consumer.start()
  source.send('a')
  await until(
    async () => events.some(({ event }) => event === 'unavailable'),
    () => JSON.stringify(events),
  )
  const { value } = events.find(({ event }) => event === 'unavailable')!
  expect(String(Reflect.get(value, 'error'))).toContain(setting)
  isSlow = false
  await until(
    async () => source.how('a').length > 0,
    () => JSON.stringify(events),
  )
  expect(source.how('a')).toEqual(['accept'])
})

test('I10 a connection that an administrator ends while a handler runs is reported with the reason of the server', async () => {
  const root = openRoot()
  const error: unknown = await root.database
    .transact(async (tx) => {
      if (target.engine === 'postgres') {
        const [row] = await target.exec(tx, 'select pg_backend_pid() as pid')
        await target.sql('select pg_terminate_backend(?)', [row!['pid']])
      } else {
        const [row] = await target.exec(tx, 'select connection_id() as id')
        await target.sql(`kill ${String(row!['id'])}`)
      }
      await sleep(100)
    })
    .catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE', retryable: true })
  if (target.engine === 'postgres') {
    expect(String(error)).toContain('terminating connection due to administrator command')
    expect(error).toMatchObject({ cause: { code: '57P01' } })
  }
})
