import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { DedupStoreUnavailableError, createConsumer } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createQueue, queueSource } from '@txbox/queue'
import { redisDedup } from '@txbox/redis'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemoryDedupStore } from '../../support/subjects/memory-dedup-store.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { freePort } from '../../support/engines/servers/free-port.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

test("R7 R8 a chain in which Redis is gone ('process') and another store has forgotten the message: the inbox decides", async () => {
  const name = `consumer-${randomUUID()}`
  const gone = new Redis({
    port: await freePort(),
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => 20,
  })
  gone.on('error', () => undefined)
  onTestFinished(() => gone.disconnect())
  // Two sources, and two processes: what one store knows, the other does not.
  const events: ConsumerUnderTest['events'] = []
  const sources = [new MemorySource(), new MemorySource()]
  for (const source of sources) {
    const consumer = createConsumer({
      source,
      inbox: createInbox<TransactionHandle>({ database: root.database, consumer: name }),
      dedup: [redisDedup({ client: gone, onUnavailable: 'process' }), new MemoryDedupStore()],
      logger: false,
      handler: (tx, { id }) => target.effect(tx, `${name} ${id}`),
    })
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
  }
  const ids = ['a', 'b', 'c', 'd']
  for (const source of sources) for (const id of ids) source.send(id)
  const handled = (): readonly string[] =>
    events
      .filter(({ event }) => event === 'handled')
      .map(({ value }) => String(Reflect.get(value, 'outcome')))
  await until(
    async () => handled().length === 8,
    () => `8 are handled: ${JSON.stringify(events)}`,
  )
  expect(handled().toSorted()).toEqual([...ids.map(() => 'duplicate'), ...ids.map(() => 'processed')])
  for (const id of ids) expect(await target.effects(`${name} ${id}`)).toBe(1)
  expect((await target.claims(name)).length).toBe(4)
  const errors = events.filter(({ event }) => event === 'error')
  expect(errors.length).toBe(8)
  for (const { value } of errors)
    expect(Reflect.get(value, 'error')).toBeInstanceOf(DedupStoreUnavailableError)
  expect(events.filter(({ event }) => event === 'retried')).toEqual([])
})

test('C8 without an inbox, a database or a dedup store nothing is claimed: a message sent twice is handled twice', async () => {
  const name = `plain-${randomUUID()}`
  const queue = createQueue<TransactionHandle>({ database: root.database, name })
  await root.database.transact(async (tx) => {
    await queue.send(tx as never, [
      { id: 'a', payload: 1 },
      { id: 'a', payload: 1 },
    ])
  })
  const handled: string[] = []
  const consumer = createConsumer({
    source: queueSource(queue),
    name,
    logger: false,
    handler: ({ id }) => void handled.push(id),
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await until(
    async () => handled.length === 2,
    () => `2 are handled: ${handled.join()}`,
  )
  expect(handled).toEqual(['a', 'a'])
  for (const consumerOfClaims of [name, `@queue/${name}`]) {
    expect(await target.claims(consumerOfClaims)).toEqual([])
  }
})
