import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { NotInTransactionError, TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { migrate as migrateMysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { migrate as migratePostgres } from '@txbox/postgres'
import { createDeadLetters, createRelay, publishEach } from '@txbox/relay'
import { InboxUnderTest } from '../support/inbox-under-test.ts'
import { libraryRoot, libraryUnderTest } from '../support/library-roots.ts'
import { useRoot, useTarget } from '../support/target.ts'
import { until } from '../support/until.ts'

const target = useTarget()
const { exec, nested, stray, rootFor } = libraryUnderTest!
const root = useRoot(target, target.kinds[0]!)

/** Something of the library that is no open transaction is refused, and nothing is written. */
async function refuses(handle: object): Promise<void> {
  const subject = new InboxUnderTest(target, root)
  const tx = handle as TransactionHandle
  await expect(subject.inbox.process(tx, { id: 'm' }, subject.handle)).rejects.toThrow(NotInTransactionError)
  const id = randomUUID()
  const outbox = createOutbox({ database: root.database })
  await expect(outbox.publish(tx, { id, topic: 't', payload: {} })).rejects.toThrow(NotInTransactionError)
  expect([subject.calls, await subject.claimedKeys(), await stored(id)]).toEqual([0, [], 0])
}

async function stored(id: string): Promise<number> {
  return (await target.sql(`select 1 from ${target.outboxTable} where id = ?`, [id])).length
}

describe('a handle that is not an open transaction', () => {
  for (const [name, handleOf] of Object.entries(stray ?? {})) {
    test(`I13 ${name} is refused`, () => refuses(handleOf(libraryRoot(root))))
  }

  test('I13 a transaction that has ended is refused', async () => {
    const transaction = await root.begin()
    await transaction.commit()
    await refuses(transaction.tx)
  })

  test('a transaction that ends while a call is not awaited', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const outcome = subject.inbox
      .process(transaction.tx, { id: 'm' }, subject.handle)
      .catch((error: unknown) => error)
    await transaction.rollback().catch(() => undefined)
    await outcome
    expect([await subject.claimedKeys(), await subject.effects()]).toEqual([[], 0])
  })
})

test('I8 a claim in a savepoint that rolls back is forgotten', async () => {
  const subject = new InboxUnderTest(target, root)
  await libraryRoot(root).transact(async (tx) => {
    const failed = nested(tx, async (inner) => {
      await subject.inbox.process(inner as TransactionHandle, { id: 'm' }, subject.handle)
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    const { status } = await subject.inbox.process(tx as TransactionHandle, { id: 'm' }, subject.handle)
    expect(status).toBe('processed')
  })
  expect([await subject.claimedKeys(), await subject.effects()]).toEqual([['m'], 1])
})

test('concurrent calls on a transaction and its savepoints, which share one connection, are all answered', async () => {
  const subject = new InboxUnderTest(target, root)
  const ids = Array.from({ length: 6 }, (_, n) => `m${n}`)
  await libraryRoot(root).transact(async (tx) => {
    const outcomes = ids.map((id) =>
      subject.inbox.process(tx as TransactionHandle, { id }, async () => undefined),
    )
    expect((await Promise.all(outcomes)).map(({ status }) => status)).toEqual(ids.map(() => 'processed'))
  })
  expect(await subject.claimedKeys()).toEqual(ids)
})

describe('a root', () => {
  test('I2 I3 run claims once', async () => {
    const subject = new InboxUnderTest(target, root)
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => (await subject.inbox.run({ id: 'm' }, subject.handle)).status),
    )
    expect(statuses.toSorted()).toEqual([...Array<string>(7).fill('duplicate'), 'processed'])
    expect(await subject.effects()).toBe(1)
  })

  test('an error of the handler rolls back, and is rethrown', async () => {
    const subject = new InboxUnderTest(target, root)
    const thrown = new Error('of the handler')
    const failing = subject.inbox.run({ id: 'm' }, async (tx) => {
      await subject.handle(tx, undefined as never, undefined as never)
      throw thrown
    })
    await expect(failing).rejects.toBe(thrown)
    expect([await subject.claimedKeys(), await subject.effects()]).toEqual([[], 0])
  })

  test('I10 transact never reports success when the server turned COMMIT into a rollback', async () => {
    const name = randomUUID()
    const [abort] = Object.values(target.abortions)
    const committing = root.database.transact(async (tx) => {
      await target.effect(tx, name)
      await abort!(tx).catch(() => undefined)
    })
    await expect(committing).rejects.toThrow(TransactionAbortedError)
    expect(await target.effects(name)).toBe(0)
  })

  test('transact runs at the requested isolation level', async () => {
    const { database } = root
    await database.transact(
      async (tx) => {
        const sql =
          target.engine === 'postgres'
            ? "select current_setting('transaction_isolation') as level"
            : `select trx_isolation_level as level from information_schema.innodb_trx where trx_mysql_thread_id = connection_id()`
        await target.effect(tx, 'level')
        const read = async (): Promise<string> => {
          const [row] = await exec(tx, sql, [])
          return String(row?.['level']).toLowerCase()
        }
        // MySQL and MariaDB show their transactions a tenth of a second late.
        await until(
          async () => (await read()) === 'serializable',
          async () => `the level is serializable; it is ${await read()}`,
          2000,
        )
      },
      { isolation: 'serializable' },
    )
  })
})

if (rootFor === 'run') {
  test('a root without access to connections reports what the relay, the collector and migrate need', async () => {
    const advice = /Pass a pool of the driver as 'db' for them/
    await expect((target.engine === 'postgres' ? migratePostgres : migrateMysql)(root.db)).rejects.toThrow(
      advice,
    )
    const { database } = root
    const relay = createRelay({ database, publisher: publishEach(() => undefined), logger: false })
    await expect(relay.drain()).rejects.toThrow(advice)
    await relay.stop()
    await expect(createDeadLetters({ database }).list()).rejects.toThrow(advice)
    const collector = createGarbageCollector({ database, logger: false })
    await expect(collector.runOnce()).rejects.toThrow(advice)
    await collector.stop()
  })
}

if (rootFor === 'all')
  describe('a root with connections', () => {
    test('migrate finds nothing to do', async () => {
      const { applied } = await (target.engine === 'postgres' ? migratePostgres : migrateMysql)(root.db, {
        libraries: libraryRoot(root).libraries,
      })
      expect(applied).toEqual([])
    })

    test('the relay publishes, the collector removes, and dead letters are listed', async () => {
      const { database } = root
      const ids = Array.from({ length: 20 }, () => randomUUID())
      const outbox = createOutbox({ database })
      await database.transact((tx) =>
        outbox.publish(
          tx as never,
          ids.map((id, n) => ({ id, topic: 't', key: `k${n % 3}`, payload: Buffer.from([n, 0, 255]) })),
        ),
      )
      const published: string[] = []
      const relay = createRelay({
        database,
        publisher: publishEach(
          async (message) => void published.push(`${message.id} ${message.payload.join()}`),
        ),
        logger: false,
      })
      await relay.drain()
      await relay.stop()
      expect(published.toSorted()).toEqual(ids.map((id, n) => `${id} ${n},0,255`).toSorted())

      const subject = new InboxUnderTest(target, root)
      await subject.inbox.run({ id: 'm' }, subject.handle)
      await target.expire(subject.consumer)
      const collector = createGarbageCollector({ database, logger: false })
      await collector.runOnce()
      await collector.stop()
      expect(await subject.claimedKeys()).toEqual([])
      expect(await createDeadLetters({ database }).list()).toEqual([])
    })
  })
