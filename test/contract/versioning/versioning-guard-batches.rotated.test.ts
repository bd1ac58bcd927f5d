import { randomUUID } from 'node:crypto'
import { createConsumer } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { expect, onTestFinished, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import {
  onEachHalf,
  onEachHalfAtOneLevel,
  type VersioningUnderTest,
} from '../../support/subjects/versioning-under-test.ts'
import { until } from '../../support/worlds/until.ts'

interface Changed {
  readonly id: string
  readonly version: number
}

const ROWS = 60
const target = useTarget()
const tables = useVersionedTables(target)
const GUARD = {
  table: 'orders',
  where: ({ payload }: { payload: Changed }) => ({ id: payload.id }),
  version: ({ payload }: { payload: Changed }) => payload.version,
}

/** A consumer that handles all messages of its source in one batch. */
async function started(
  subject: VersioningUnderTest,
  source: MemorySource,
): Promise<ConsumerUnderTest['events']> {
  const events: ConsumerUnderTest['events'] = []
  const { database } = subject.root
  const consumer = createConsumer<TransactionHandle, Changed>({
    source: source as never,
    inbox: createInbox({ database, consumer: `guard-${randomUUID()}` }),
    logger: false,
    guard: subject.versionGuard<Changed>(GUARD),
    concurrency: 1,
    batch: { maxSize: ROWS, lingerMs: 50 },
    handler: async (tx, messages) => {
      for (const { payload } of messages) {
        await target.exec(tx, 'update orders set total = ? where id = ?', [payload.version, payload.id])
      }
    },
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await consumer.start()
  return events
}

onEachHalf(target, (subject) => {
  const { isolation } = subject

  test('V8 C26 two batches with the same rows in opposite order do not deadlock', async () => {
    const ids = await Promise.all(Array.from({ length: ROWS }, () => tables.order({ version: 1 })))
    const sources = [new MemorySource(), new MemorySource()] as const
    const all = await Promise.all(sources.map((source) => started(subject, source)))
    for (let version = 2; version < 8; version += 2) {
      for (const id of ids) sources[0].send(`${version} ${id}`, { payload: { id, version } })
      for (const id of ids.toReversed()) {
        sources[1].send(`${version + 1} ${id}`, { payload: { id, version: version + 1 } })
      }
      const expected = ROWS * (version / 2)
      await until(
        async () =>
          all.every((events) => events.filter(({ event }) => event === 'handled').length >= expected),
        () => `all are handled: ${JSON.stringify(all.flat().map(({ event }) => event))}`,
      )
    }
    const others = all.flat().filter(({ event }) => event !== 'handled')
    // At REPEATABLE READ, a row that another transaction has changed since the snapshot is a conflict, too.
    if (isolation === 'read committed') expect(others).toEqual([])
    else
      expect(others.every(({ event, value }) => event === 'retried' && Reflect.get(value, 'local'))).toBe(
        true,
      )
    for (const id of ids) expect(await tables.read(id)).toMatchObject({ version: '7', total: 7 })
  })
})

onEachHalfAtOneLevel(target, (subject) => {
  test('V8 the row of a message is the same text for the same key', () => {
    const rowOf = (where: object) =>
      subject
        .versionGuard<Changed>({
          table: 'orders',
          where: () => where,
          version: () => 1,
        })
        .rowOf({ id: 'm', payload: { id: 'a', version: 1 } })
    expect(rowOf({ id: '1', status: 'new' })).toBe(rowOf({ status: 'new', id: 1 }))
    expect(rowOf({ id: 1n })).toBe(rowOf({ id: '1' }))
    expect(rowOf({ id: 'a' })).not.toBe(rowOf({ id: 'b' }))
    expect(rowOf({ id: Buffer.from('a') })).toBe(rowOf({ id: new Uint8Array([97]) }))
    expect(rowOf({ id: new Date(0) })).toBe(rowOf({ id: new Date(0) }))
    expect([rowOf(undefined as never), rowOf({ id: new Date(Number.NaN) })]).toEqual(['', ''])
  })
})
