import { randomUUID } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { PermanentError } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { queueSource } from '@txbox/queue'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { Broker, rejected } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 20 })
const SECRET = 'secret-payload'

type Told = Record<string, unknown>

/** Listens on a channel until the test ends. */
function listen(name: string): Told[] {
  const told: Told[] = []
  const listener = (event: unknown): void => void told.push(event as Told)
  subscribe(name, listener)
  onTestFinished(() => void unsubscribe(name, listener))
  return told
}

async function storeMessages(...keys: string[]): Promise<void> {
  const transaction = await root.begin()
  const messages = keys.map((key) => ({
    topic: 'test',
    key,
    type: 'order.paid',
    payload: { card: SECRET },
    headers: { token: SECRET },
  }))
  await createOutbox({ database: root.database }).publish(transaction.tx, messages)
  await transaction.commit()
}

test('channels tell what was stored, published, parked and given up, and that the publisher is unavailable, without payloads', async () => {
  const [publish, published, parked, dead, unavailable] = [
    'txbox:publish',
    'txbox:published',
    'txbox:parked',
    'txbox:dead-lettered',
    'txbox:unavailable',
  ].map(listen) as [Told[], Told[], Told[], Told[], Told[]]
  await storeMessages('good', 'bad', 'late')
  expect(publish).toEqual([
    {
      by: 'publish',
      messages: Array.from({ length: 3 }, () => ({
        id: expect.any(String),
        topic: 'test',
        type: 'order.paid',
        duplicate: false,
      })),
    },
  ])
  const [, bad, late] = publish[0]!['messages'] as { id: string }[]
  let failures = 0
  const tried = new Set<string>()
  const publisher = new Broker().publisher({
    respond(call) {
      if ((failures += 1) === 1) throw new Error('the broker is gone')
      return call.messages.map((message) => {
        const isFirst = !tried.has(message.id)
        tried.add(message.id)
        if (message.key === 'bad') return rejected({ retryable: false, error: new PermanentError('never') })
        return message.key === 'late' && isFirst ? rejected() : call.accept(message)
      })
    },
  })
  await RelayUnderTest.started(root, publisher, { logger: false, retry: { attempts: 5, delayMs: () => 1 } })
  await outbox.settled()
  const ids = (): string[] =>
    published.flatMap(({ messages }) => (messages as { id: string }[]).map(({ id }) => id))
  await until(
    async () => ids().length === 2,
    () => `two published messages: ${JSON.stringify(published)}`,
  )
  expect(published[0]).toEqual({
    shard: expect.any(Number),
    messages: [{ id: expect.any(String), topic: 'test', type: 'order.paid', createdAt: expect.any(Date) }],
    durationMs: expect.any(Number),
  })
  expect(parked).toEqual([
    {
      id: late!.id,
      topic: 'test',
      type: 'order.paid',
      attempt: 1,
      dueAt: expect.any(Date),
      reason: 'refused',
    },
  ])
  expect(dead).toEqual([{ id: bad!.id, topic: 'test', type: 'order.paid', attempts: 1, reason: 'never' }])
  expect(unavailable[0]).toEqual({ retryInMs: expect.any(Number), reason: 'the broker is gone' })
  expect(JSON.stringify([publish, published, parked, dead, unavailable])).not.toContain(SECRET)
})

test('channels tell what a consumer has handled, tries again and has given up, without payloads', async () => {
  const [handled, retried, dead] = ['txbox:handled', 'txbox:retried', 'txbox:dead-lettered'].map(listen) as [
    Told[],
    Told[],
    Told[],
  ]
  const queue = new QueueUnderTest(target, root)
  const name = `consumer-${randomUUID()}`
  await queue.send({ id: `${name} good`, payload: SECRET }, { id: `${name} bad`, payload: SECRET })
  const failed = new Set<string>()
  const consumer = createConsumer({
    source: queueSource(queue.queue),
    inbox: createInbox({ database: root.database, consumer: name }),
    handler: (_, { id }) => {
      const isFirst = !failed.has(id)
      failed.add(id)
      if (id.endsWith('bad')) throw new PermanentError('never')
      if (isFirst) throw new Error('the first attempt')
    },
    retry: { attempts: 5, delayMs: () => 1 },
    logger: false,
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await until(
    async () => handled.length === 1 && dead.length === 1,
    () => JSON.stringify({ handled, retried, dead }),
  )
  const about = { consumer: name, source: expect.any(String), deliveries: expect.any(Number) }
  expect(handled).toMatchObject([
    { ...about, id: `${name} good`, outcome: 'processed', durationMs: expect.any(Number) },
  ])
  expect(retried).toMatchObject([
    { ...about, id: `${name} good`, delayMs: 1, local: expect.any(Boolean), reason: 'the first attempt' },
  ])
  expect(dead).toMatchObject([{ ...about, id: `${name} bad`, reason: 'never' }])
  expect(JSON.stringify([handled, retried, dead])).not.toContain(SECRET)
})
