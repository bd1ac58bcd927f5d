import { randomUUID } from 'node:crypto'
import { RetryLaterError, createConsumer, type InboxMessage } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { expect, onTestFinished, test } from 'vitest'
import { ChangingHandler, ORDER, conflict } from '../../support/subjects/changing-handler.ts'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 10 })

/** The failures of the first attempts: a conflict, a local retry, and a failure that counts as a delivery. */
const FAILURES = [conflict(), new RetryLaterError({ retryAfterMs: 1 }), new Error('failed')]
const OPTIONS = { localDelayMs: 50, retry: { attempts: 10, delayMs: () => 1 } }
const headers = { region: 'eu' }

function failing(handler: ChangingHandler): (message: InboxMessage) => void {
  return (message) => {
    const failure = FAILURES[handler.change(message) - 1]
    if (failure !== undefined) throw failure
  }
}

test.each(['in the transaction', 'without a transaction'])(
  'C11 C12 a handler of a stored queue sees the message as received in each attempt: %s',
  async (way) => {
    const consumers = new QueueConsumers(target, root)
    const handler = new ChangingHandler()
    const fail = failing(handler)
    const [id] = await consumers.subject.send({ payload: ORDER, headers })
    const plain = { database: undefined, name: 'plain', handler: (message: InboxMessage) => fail(message) }
    await consumers.start(
      (_tx, message) => fail(message),
      way === 'in the transaction' ? OPTIONS : { ...OPTIONS, ...plain },
    )
    await consumers.heard('handled')
    expect(handler.attempts).toEqual(Array(4).fill(`${id} 900 2 region=eu`))
    // Without a transaction, the first failure is one like any other.
    const locals = consumers.events
      .filter(({ event }) => event === 'retried')
      .map(({ value }) => Reflect.get(value, 'local'))
    expect(locals).toEqual([way === 'in the transaction', true, false])
    expect(consumers.count('error')).toBe(0)
    await consumers.empty()
  },
)

test('C11 a handler of a stored queue sees bytes as received in each attempt', async () => {
  const consumers = new QueueConsumers(target, root)
  const seen: string[] = []
  await consumers.subject.send({ payload: Buffer.from('abc') })
  await consumers.start((_tx, { payload }) => {
    const bytes = payload as Uint8Array
    seen.push(Buffer.from(bytes).toString())
    bytes.fill(0)
    const failure = FAILURES[seen.length - 1]
    if (failure !== undefined) throw failure
  }, OPTIONS)
  await consumers.heard('handled')
  expect(seen).toEqual(Array(4).fill('abc'))
})

test('C26 a batch of a stored queue that failed is handled one by one, with the messages as received', async () => {
  const consumers = new QueueConsumers(target, root)
  const handler = new ChangingHandler()
  const ids = await consumers.subject.sendTogether([
    { payload: ORDER, headers },
    { payload: ORDER, headers },
  ])
  const sizes: number[] = []
  await consumers.startBatch((_tx, messages) => {
    sizes.push(messages.length)
    for (const message of messages) handler.change(message)
    if (sizes.length === 1) throw conflict()
    if (sizes.length === 2) throw new Error('failed')
  })
  await consumers.heard('handled', 2)
  expect(sizes).toEqual([2, 2, 1, 1])
  expect(handler.attempts.toSorted()).toEqual(
    ids.flatMap((id) => Array<string>(3).fill(`${id} 900 2 region=eu`)).toSorted(),
  )
})

/** A source of third parties, which cannot decode a message again. */
async function overInbox(source: MemorySource, options: object): Promise<ConsumerUnderTest['events']> {
  const events: ConsumerUnderTest['events'] = []
  const inbox = createInbox({ database: root.database, consumer: `as-received-${randomUUID()}` })
  const consumer = createConsumer({ source, inbox, logger: false, ...OPTIONS, ...options } as never)
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await consumer.start()
  return events
}

const heard = (events: ConsumerUnderTest['events'], event: string, count = 1) =>
  until(
    async () => events.filter((one) => one.event === event).length >= count,
    () => `${count} ${event}: ${JSON.stringify(events.map((one) => [one.event, one.id]))}`,
  )

test('C11 C12 I5 over an inbox each attempt sees the message as received, and conflicts are retried locally', async () => {
  const source = new MemorySource()
  const handler = new ChangingHandler()
  const fail = failing(handler)
  const payload = structuredClone(ORDER)
  source.send('a', { payload })
  const events = await overInbox(source, {
    handler: (_tx: unknown, message: InboxMessage) => fail(message),
  })
  await heard(events, 'handled')
  expect(handler.attempts).toEqual(Array(4).fill('a 900 2'))
  const retried = events
    .filter(({ event }) => event === 'retried')
    .map(({ value }) => Reflect.get(value, 'local'))
  expect(retried).toEqual([true, true, false])
})

test('C26 I5 a batch over an inbox: each attempt sees its messages as received, with the context of each', async () => {
  const source = new MemorySource()
  const handler = new ChangingHandler()
  for (const id of ['a', 'b', 'c']) source.send(id, { payload: structuredClone(ORDER) })
  let calls = 0
  const keys: string[] = []
  const guardOf: string[] = []
  const events = await overInbox(source, {
    ...{ concurrency: 1, batch: { maxSize: 3, lingerMs: 100 } },
    guard: async (_tx: unknown, message: InboxMessage) => {
      guardOf.push(message.id)
      return message.id === 'b' ? 'stale' : 'apply'
    },
    handler: (_tx: unknown, messages: readonly InboxMessage[], contexts: readonly { key: string }[]) => {
      keys.push(contexts.map(({ key }) => key).join())
      for (const message of messages) handler.change(message)
      if (++calls === 1) throw conflict()
    },
  })
  await heard(events, 'handled', 3)
  expect(keys).toEqual(['a,c', 'a,c'])
  expect(guardOf).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
  expect(handler.attempts).toEqual(['a 900 2', 'c 900 2', 'a 900 2', 'c 900 2'])
  const outcomes = events
    .filter(({ event }) => event === 'handled')
    .map(({ value }) => Reflect.get(value, 'outcome') as string)
  expect(outcomes.toSorted()).toEqual(['processed', 'processed', 'stale'])
})

test('C26 a guard that names rows is asked in the order of the rows, and the handler gets the messages in their own order', async () => {
  const source = new MemorySource()
  for (const id of ['c', 'a', 'b1', 'b0']) source.send(id)
  const asked: string[] = []
  const handled: string[] = []
  const guard = async (_tx: unknown, { id }: InboxMessage) => {
    asked.push(id)
    return id === 'a' ? 'stale' : 'apply'
  }
  const events = await overInbox(source, {
    ...{ concurrency: 1, batch: { maxSize: 4, lingerMs: 100 } },
    guard: Object.assign(guard, { rowOf: ({ id }: InboxMessage) => id.slice(0, 1) }),
    handler: (_tx: unknown, messages: readonly InboxMessage[]) =>
      void handled.push(...messages.map(({ id }) => id)),
  })
  await heard(events, 'handled', 4)
  expect([asked, handled]).toEqual([
    ['a', 'b1', 'b0', 'c'],
    ['c', 'b1', 'b0'],
  ])
})
