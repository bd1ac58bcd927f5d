import { randomBytes, randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
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

test('O13 payloads, headers and names are stored unchanged, one by one and together', async () => {
  const outbox = createOutbox({ database: root.database })
  const text = 'Grüße, \u{1f680} \u2028 "quotes", \'\\ \\x00 %s $1 :a ? {a,NULL} \r\n\t e\u0301 \ufeff --; /*'
  const everyByte = Uint8Array.from({ length: 256 }, (_, n) => n)
  const payloads = {
    'no bytes': Buffer.alloc(0),
    'every byte, and no UTF-8': Buffer.concat([
      ...Array<Uint8Array>(24).fill(everyByte),
      Buffer.of(0xc3, 0x28),
    ]),
    'bytes that look like hex': Buffer.from('\\xdeadbeef'),
    'bytes of a text': Buffer.from(`${text}\0`),
    'many bytes': randomBytes(300_000),
  }
  const messages = ['alone', 'together'].flatMap((way) =>
    Object.entries(payloads).flatMap(([name, payload]) => [
      { id: `${name} ${way}`, topic: 't', payload },
      {
        ...{ id: `${name} ${way}, with ${text}`, topic: text, key: text, type: text, payload },
        ...{ contentType: 'application/x-test', correlationId: text, headers: { [text]: text, '': '' } },
      },
    ]),
  )
  const alone = messages.filter(({ id }) => id.includes(' alone'))
  await libraryRoot(root).transact(async (tx) => {
    for (const message of alone) await outbox.publish(tx as TransactionHandle, message)
    await outbox.publish(
      tx as TransactionHandle,
      messages.filter((message) => !alone.includes(message)),
    )
  })

  const columns = 'id, topic, type, content_type, headers, correlation_id, payload'
  const key = target.engine === 'postgres' ? 'key' : '`key`'
  const rows = await target.sql(`select ${columns}, ${key} from ${target.outboxTable}`)
  const textOf = (value: unknown): unknown =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : (value ?? undefined)
  for (const message of messages) {
    const row = rows.find((each) => textOf(each['id']) === message.id)
    const headers = typeof row?.['headers'] === 'string' ? JSON.parse(row['headers']) : row?.['headers']
    expect({ ...message, payload: undefined }).toEqual({
      ...{ id: message.id, topic: textOf(row?.['topic']), key: textOf(row?.['key']) },
      ...{ type: textOf(row?.['type']), correlationId: textOf(row?.['correlation_id']), payload: undefined },
      ...('headers' in message && { headers, contentType: textOf(row?.['content_type']) }),
    })
    expect(message.payload.equals(Buffer.from(row?.['payload'] as Uint8Array)), message.id).toBe(true)
  }
  await target.sql(`delete from ${target.outboxTable}`)
})

test('O1 I2 whenever a transaction is rolled back, calls that were not awaited leave nothing', async () => {
  const subject = new InboxUnderTest(target, root)
  const outbox = createOutbox({ database: root.database })
  const ids: string[] = []
  // The later the rollback, the further the calls have come.
  for (let ticks = 0; ticks < 60; ticks++) {
    const id = randomUUID()
    ids.push(id)
    let calls: Promise<unknown> = Promise.resolve()
    const failing = libraryRoot(root).transact(async (tx) => {
      const claimed = subject.inbox.process(tx as TransactionHandle, { id }, () => undefined)
      const published = outbox.publish(tx as TransactionHandle, { id, topic: 't', payload: {} })
      calls = Promise.allSettled(ticks % 2 === 0 ? [claimed, published] : [published, claimed])
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow()
    await calls
  }
  expect(await subject.claimedKeys()).toEqual([])
  for (const id of ids) expect(await stored(id)).toBe(0)
})

// On PostgreSQL the first error aborts the transaction.
if (target.engine !== 'postgres') {
  for (const isFailing of [true, false]) {
    const failure = isFailing ? 'a statement of the caller fails' : 'a claim finds a duplicate'
    test(`I1 O1 statements that are sent at the same time take effect, although ${failure}`, async () => {
      const subject = new InboxUnderTest(target, root)
      await subject.inbox.run({ id: 'known' }, () => undefined)
      const outbox = createOutbox({ database: root.database })
      const ids = Array.from({ length: 40 }, () => randomUUID())
      for (const [turns, id] of ids.entries()) {
        await libraryRoot(root).transact(async (tx) => {
          const own = tx as TransactionHandle
          const duplicate = subject.inbox.process(own, { id: 'known' }, subject.handle)
          const published = outbox.publish(own, { id, topic: 't', payload: {} })
          for (let turn = 0; turn < turns; turn++) await (turn % 4 === 3 ? setImmediate() : Promise.resolve())
          // Its answer may arrive together with one for txbox, so that both send the next statement in one tick.
          await exec(tx, 'select 1 as one', [])
          const sent = exec(tx, 'insert into effects (name) values (?)', [isFailing ? null : id])
          const [outcome] = await Promise.allSettled([sent, duplicate, published])
          expect(outcome.status).toBe(isFailing ? 'rejected' : 'fulfilled')
          expect(await duplicate).toMatchObject({ status: 'duplicate' })
          await published
        })
      }
      for (const id of ids)
        expect([await stored(id), await target.effects(id)]).toEqual([1, isFailing ? 0 : 1])
      await target.sql(`delete from ${target.outboxTable}`)
    })
  }
}

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
