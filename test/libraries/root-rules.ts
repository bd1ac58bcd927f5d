import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  DatabaseUnavailableError,
  NotInTransactionError,
  PermanentError,
  SchemaError,
  TransactionAbortedError,
  type TransactionHandle,
} from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { migrate as migrateMysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { migrate as migratePostgres } from '@txbox/postgres'
import { createDeadLetters, createRelay, publishEach } from '@txbox/relay'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { libraryRoot, libraryUnderTest } from '../support/engines/library-roots.ts'
import { skipBecause } from '../support/tiers/skips.ts'
import type { HandleKind, Root, Target } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

/**
 * What the roots of every library, version and driver must do.
 *
 * @param isAlone there is one connection only, as on PGlite.
 */
export function rootRules(target: Target, root: Root, kind: HandleKind, isAlone: boolean): void {
  const { rootFor } = libraryUnderTest!
  transactions(target, root)
  errors(target, root, kind, isAlone)
  if (rootFor === 'run') withoutConnections(target, root)
  else withConnections(target, root)
}

async function migrateOn(target: Target, root: Root, place?: string): Promise<readonly string[]> {
  const options = { libraries: libraryRoot(root).libraries }
  const { applied } = await (target.engine === 'postgres'
    ? migratePostgres(root.db, { ...options, ...(place !== undefined && { schema: place }) })
    : migrateMysql(root.db, { ...options, ...(place !== undefined && { prefix: place }) }))
  return applied
}

function transactions(target: Target, root: Root): void {
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
      const { exec } = libraryUnderTest!
      await target.sql("insert into effects (name) values ('level')")
      await root.database.transact(
        async (tx) => {
          if (target.engine === 'postgres') {
            const [row] = await exec(tx, "select current_setting('transaction_isolation') as level", [])
            expect(row?.['level']).toBe('serializable')
            return
          }
          // Only at this level a plain read locks the row. information_schema.innodb_trx names the level, but stays as it was
          // while sessions read it more than once in a tenth of a second.
          await exec(tx, "select name from effects where name = 'level'", [])
          const locking = target.sql("select name from effects where name = 'level' for update nowait")
          await expect(locking).rejects.toThrow(/NOWAIT|lock wait timeout/i)
        },
        { isolation: 'serializable' },
      )
    })
  })
}

function errors(target: Target, root: Root, kind: HandleKind, isAlone: boolean): void {
  test('missing tables are a SchemaError, and nothing is written', async () => {
    const elsewhere = target.open(kind, { schema: 'absent' })
    await elsewhere.ready?.()
    onTestFinished(() => elsewhere.close())
    const subject = new InboxUnderTest(target, elsewhere)
    const outbox = createOutbox({ database: elsewhere.database })
    const publish = (tx: object): Promise<unknown> =>
      outbox.publish(tx as TransactionHandle, { topic: 't', payload: {} })
    await expect(subject.process({ id: 'x' })).rejects.toThrow(SchemaError)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow(SchemaError)
    await expect(libraryRoot(elsewhere).transact(publish)).rejects.toThrow(SchemaError)
    expect([subject.calls, await subject.effects()]).toEqual([0, 0])
  })

  if (isAlone) return
  test('I10 a connection that the server has killed is reported, and nothing is stored', async (context) => {
    if (libraryUnderTest!.endsProcessWhenBroken === true) skipBecause(context, 'process-ended')
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await target.kill(transaction)
    const failing = subject.inbox.process(transaction.tx, { id: 'y' }, subject.handle)
    const error: unknown = await failing.catch((reason: unknown) => reason)
    if (libraryUnderTest!.hidesBrokenConnection === true && error instanceof NotInTransactionError) {
      expect(error.message).toContain('Nothing was written')
    } else {
      expect(error).toBeInstanceOf(DatabaseUnavailableError)
    }
    await transaction.rollback().catch(() => undefined)
    expect([subject.calls, await subject.claimedKeys()]).toEqual([1, []])
  })

  test('a server that cannot be reached is a retryable DatabaseUnavailableError', async () => {
    // Nothing listens on the port of the discard service.
    const nowhere = target.open(kind, { through: { address: { host: '127.0.0.1', port: 9 } } })
    const subject = new InboxUnderTest(target, nowhere)
    const error: unknown = await subject.inbox
      .run({ id: 'x' }, subject.handle)
      .catch((reason: unknown) => reason)
    await nowhere.close()
    expect(error).toBeInstanceOf(DatabaseUnavailableError)
    expect(error).toMatchObject({ retryable: true })
    expect(subject.calls).toBe(0)
  })
}

function withoutConnections(target: Target, root: Root): void {
  test('a root without access to connections reports what the relay, the collector and migrate need', async () => {
    const advice = /Pass a pool of the driver as 'db' for them/
    await expect(migrateOn(target, root)).rejects.toThrow(advice)
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

function withConnections(target: Target, root: Root): void {
  test('migrate creates all tables where there are none, and nothing where they exist', async () => {
    expect(await migrateOn(target, root)).toEqual([])
    const applied = await migrateOn(target, root, 'fresh_')
    expect(applied.length).toBeGreaterThan(1)
    expect(await migrateOn(target, root, 'fresh_')).toEqual([])
  })

  test('the relay publishes, and the collector removes', async () => {
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
  })

  test('O5 a relay that was started makes dead letters, one of which is redriven, and the other one discarded', async () => {
    const { database } = root
    const outbox = createOutbox({ database })
    const [redriven, discarded] = [randomUUID(), randomUUID()]
    await database.transact((tx) =>
      outbox.publish(
        tx as never,
        [redriven, discarded].map((id) => ({ id, topic: 't', payload: {} })),
      ),
    )
    let isRefusing = true
    const published: string[] = []
    const publisher = publishEach(({ id }) => {
      if (isRefusing) throw new PermanentError('refused')
      published.push(id)
    })
    const relay = createRelay({ database, publisher, logger: false })
    await relay.start()
    onTestFinished(() => relay.stop())
    const dead = createDeadLetters({ database })
    await until(
      async () => (await dead.list()).length === 2,
      () => 'there are two dead letters',
    )
    isRefusing = false
    expect(await dead.discard({ ids: [discarded] })).toMatchObject([{ id: discarded, error: 'refused' }])
    expect(await dead.redrive({ ids: [redriven] })).toMatchObject([{ id: redriven }])
    await until(
      async () => published.length > 0,
      () => 'the message that was redriven is published',
    )
    await relay.stop()
    expect([published, await dead.list()]).toEqual([[redriven], []])
  })
}
