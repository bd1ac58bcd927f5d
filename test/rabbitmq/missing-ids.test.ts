import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer, type InboxMessage } from '@txbox/consumer'
import { businessKey, createInbox } from '@txbox/inbox'
import { rabbitmqPublisher, rabbitmqSource, type RabbitmqSourceOptions } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const broker = useBroker()
const root = useRoot(target, mainKind(target))

type Task = Readonly<Record<string, unknown>>

/** A consumer of a queue whose producers set no message-id. */
class IdsUnderTest {
  readonly events: ConsumerUnderTest['events'] = []
  readonly handled: InboxMessage[] = []
  readonly name = `consumer-${randomUUID()}`
  queue = ''
  graveyard = ''

  async start(
    options: Partial<RabbitmqSourceOptions>,
    create: (source: ReturnType<typeof rabbitmqSource>, common: object) => Consumer,
  ): Promise<this> {
    this.queue = await broker.queue({ type: 'quorum' })
    this.graveyard = await broker.queue()
    const deadLetters = rabbitmqPublisher({ url: broker.url, exchange: '' })
    onTestFinished(() => deadLetters.close?.())
    const source = rabbitmqSource({ url: broker.url, queue: this.queue, ...options })
    const common = {
      deadLetters,
      deadLetterTopic: this.graveyard,
      logger: false,
      retry: { attempts: 2, delayMs: () => 1 },
    }
    const consumer = create(source, common)
    listen(consumer, this.events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    return this
  }

  send(body: Task | string, properties: object = {}): void {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    broker.channel.sendToQueue(this.queue, Buffer.from(text), properties)
  }

  async ends(count: number): Promise<string[]> {
    const ends = this.events
    const found = (): string[] =>
      ends.flatMap(({ event, id }) =>
        event === 'handled' || event === 'dead-lettered' ? [`${event} ${id}`] : [],
      )
    await until(
      async () => found().length >= count,
      () => `${count} have ended: ${JSON.stringify(ends)}`,
    )
    return found().toSorted()
  }
}

test("C10 messages of Celery, without a message-id, are known by the inbox's key, from handler to dead letter", async () => {
  const subject = new IdsUnderTest()
  await subject.start({}, (source, common) =>
    createConsumer({
      ...common,
      source,
      inbox: createInbox({
        database: root.database,
        consumer: subject.name,
        key: businessKey(({ headers }) => headers!['id']!),
      }),
      handler: async (tx, message) => {
        subject.handled.push(message)
        await target.effect(tx, `${subject.name} ${message.id}`)
        if (message.id === 'bad') throw new Error('failed')
      },
    }),
  )
  for (const id of ['good', 'good', 'bad']) {
    subject.send([[], { n: 1 }, {}] as never, {
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      correlationId: id,
      headers: { id, task: 'book', lang: 'py' },
    })
  }
  expect(await subject.ends(3)).toEqual(['dead-lettered bad', 'handled good', 'handled good'])
  expect(await target.effects(`${subject.name} good`)).toBe(1)
  expect(subject.handled.map(({ id }) => id).toSorted()).toEqual(['bad', 'bad', 'good'])
  const [dead] = await broker.take(subject.graveyard)
  expect(dead!.properties.messageId).toBe('bad')
})

test('C10 the functions id and key of a source read the id and the ordering key of a delivery', async () => {
  const subject = new IdsUnderTest()
  const keys: (string | undefined)[] = []
  await subject.start(
    {
      id: ({ properties }) => properties.headers?.['cap-msg-id'] as string | undefined,
      key: ({ fields, properties }) =>
        fields.exchange === '' ? (properties.headers?.['customer'] as string) : 'wrong',
    },
    (source, common) =>
      createConsumer({
        ...common,
        source: {
          ...source,
          name: source.name,
          traits: source.traits,
          open: async (how) => {
            const opened = await source.open(how)
            return {
              receive: async (limit, about) => {
                const received = await opened.receive(limit, about)
                keys.push(...received.map(({ key }) => key))
                return received
              },
              close: (about) => opened.close(about),
            }
          },
        },
        name: subject.name,
        handler: (message) => void subject.handled.push(message),
      }),
  )
  subject.send({ n: 1 }, { headers: { 'cap-msg-id': 'c1', customer: 'k1' }, messageId: 'another' })
  subject.send({ n: 2 }, { headers: { 'cap-msg-id': 'c2' } })
  expect(await subject.ends(2)).toEqual(['handled c1', 'handled c2'])
  expect(keys).toEqual(['k1', undefined])
  expect(subject.handled.map(({ id }) => id).toSorted()).toEqual(['c1', 'c2'])
})

test("C10 where the function id finds none, the consumer's key stands in", async () => {
  const subject = new IdsUnderTest()
  await subject.start({ id: () => undefined }, (source, common) =>
    createConsumer({
      ...common,
      source,
      name: subject.name,
      key: ({ payload }: InboxMessage) => (payload as { order: string }).order,
      handler: (message: InboxMessage, { key }) => {
        expect(key).toBe(message.id)
        subject.handled.push(message)
      },
    }),
  )
  subject.send({ order: 'o1' })
  subject.send({ order: 2 })
  subject.send('no JSON')
  expect(await subject.ends(3)).toEqual(['dead-lettered ', 'dead-lettered ', 'handled o1'])
  const errors = subject.events
    .filter(({ event }) => event === 'dead-lettered')
    .map(({ value }) => String(Reflect.get(value, 'error')))
  expect(errors.filter((error) => error.includes('The message has no id, and no key')).length).toBe(1)
})

const broken = (): never => JSON.parse('{') as never

test.each([
  ['id', (): number => 7, 'must return text or undefined for each delivery, not 7'],
  ['key', broken, 'threw an error for a delivery'],
] as const)(
  'C5 a function %s that cannot read a delivery makes it a dead letter',
  async (name, read, reason) => {
    const subject = new IdsUnderTest()
    await subject.start({ [name]: read as never }, (source, common) =>
      createConsumer({ ...common, source, name: subject.name, handler: () => undefined }),
    )
    subject.send({ n: 1 }, { messageId: 'a' })
    expect(await subject.ends(1)).toEqual(['dead-lettered a'])
    expect(String(Reflect.get(subject.events[0]!.value, 'error'))).toContain(
      `rabbitmqSource: the option '${name}' ${reason}`,
    )
  },
)
