import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer } from '@txbox/consumer'
import type { InboxMessage, TransactionHandle } from '@txbox/core'
import { businessKey, createInbox, type Inbox } from '@txbox/inbox'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

/** A consumer with an inbox and three attempts, and what it has done. */
class CountsUnderTest {
  readonly name = `consumer-${randomUUID()}`
  readonly source = new MemorySource()
  readonly events: ConsumerUnderTest['events'] = []
  readonly handled: string[] = []
  readonly inbox: Inbox<TransactionHandle, InboxMessage>

  constructor(key?: (message: InboxMessage) => string | readonly string[]) {
    this.inbox = createInbox<TransactionHandle, InboxMessage>({
      database: root.database,
      consumer: this.name,
      ...(key === undefined ? {} : { key: businessKey(key) }),
    })
  }

  async start({ batch = false, fails = false } = {}): Promise<void> {
    const common = {
      source: this.source,
      inbox: this.inbox,
      logger: false as const,
      retry: { attempts: 3, delayMs: () => 1 },
    }
    const handle = async (tx: TransactionHandle, { id }: InboxMessage): Promise<void> => {
      this.handled.push(id)
      await target.effect(tx, `${this.name} ${id}`)
      if (fails) throw new Error('failed')
    }
    const consumer: Consumer = batch
      ? createConsumer({
          ...common,
          batch: { maxSize: 10, lingerMs: 50 },
          handler: async (tx, messages) => {
            for (const message of messages) await handle(tx, message)
          },
        })
      : createConsumer({ ...common, handler: handle })
    listen(consumer, this.events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
  }

  /** What happened to each message. */
  async ends(count: number): Promise<string[]> {
    const ends = (): string[] =>
      this.events.flatMap(({ event, id, value }) =>
        event === 'handled' || event === 'dead-lettered'
          ? [`${id} ${event === 'handled' ? String(Reflect.get(value, 'outcome')) : event}`]
          : [],
      )
    await until(
      async () => ends().length >= count,
      () => `${count} have ended: ${JSON.stringify(this.events)}`,
    )
    return ends().toSorted()
  }
}

for (const batch of [false, true]) {
  test(`C2 C10 C25 a message whose claim exists is a duplicate, however often it was delivered; batches: ${batch}`, async () => {
    const subject = new CountsUnderTest()
    await root.database.transact(async (tx) => {
      await subject.inbox.markProcessed(tx, { id: 'claimed', payload: 1 })
    })
    subject.source.send('claimed', { count: 30 })
    subject.source.send('killer', { count: 30 })
    subject.source.send('good')
    await subject.start({ batch })
    expect(await subject.ends(3)).toEqual(['claimed duplicate', 'good processed', 'killer dead-lettered'])
    expect(subject.handled.filter((id) => id !== 'good')).toEqual([])
    expect(await target.effects(`${subject.name} good`)).toBe(1)
    // The message that was delivered too often has left no claim, so that a redriven one is handled.
    expect((await target.claims(subject.name)).length).toBe(2)
    const dead = subject.events.find(({ event }) => event === 'dead-lettered')
    expect(String(Reflect.get(dead!.value, 'error'))).toContain('was delivered 31 times, and at most 3')
  })
}

test('C2 C10 C25 a message that was delivered too often waits for the transaction that may claim it', async () => {
  const subject = new CountsUnderTest()
  const claimed = Promise.withResolvers<void>()
  const commit = Promise.withResolvers<void>()
  const other = root.database.transact(async (tx) => {
    await subject.inbox.markProcessed(tx, { id: 'a', payload: 1 })
    claimed.resolve()
    await commit.promise
  })
  await claimed.promise
  subject.source.send('a', { count: 30 })
  await subject.start()
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(subject.events).toEqual([])
  commit.resolve()
  await other
  expect(await subject.ends(1)).toEqual(['a duplicate'])
})

const orderOf = ({ payload }: InboxMessage): string => (payload as { order: string }).order

test("C10 without an id, the inbox's key stands in: in the context, events, dead letters and counts", async () => {
  const subject = new CountsUnderTest(orderOf)
  const { source } = subject
  source.send('first', { messageId: '', payload: { order: 'o1' } })
  await subject.start()
  expect(await subject.ends(1)).toEqual(['o1 processed'])
  source.send('again', { messageId: '', payload: { order: 'o1' } })
  expect(await subject.ends(2)).toEqual(['o1 duplicate', 'o1 processed'])
  expect(subject.handled).toEqual(['o1'])
  expect((await target.claims(subject.name)).length).toBe(1)
})

test('C10 C22 without ids, the failures of each message are counted by itself', async () => {
  const subject = new CountsUnderTest(orderOf)
  for (const order of ['o1', 'o2']) subject.source.send(order, { messageId: '', payload: { order } })
  await subject.start({ fails: true })
  expect(await subject.ends(2)).toEqual(['o1 dead-lettered', 'o2 dead-lettered'])
  expect(subject.handled.toSorted()).toEqual(['o1', 'o1', 'o1', 'o2', 'o2', 'o2'])
})

test('C5 without an id and without a key, a message is a dead letter at once, and the error says what to do', async () => {
  const byId = new CountsUnderTest()
  const byOrder = new CountsUnderTest(orderOf)
  for (const { source } of [byId, byOrder]) source.send('a', { messageId: '', payload: 1 })
  for (const subject of [byId, byOrder]) {
    await subject.start()
    expect(await subject.ends(1)).toEqual([' dead-lettered'])
    expect(subject.handled).toEqual([])
    const error: unknown = Reflect.get(subject.events[0]!.value, 'error')
    expect(String(error)).toMatch(/The message has no id, and no key.*option 'key' of the inbox/)
    expect(error).toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
  }
})
