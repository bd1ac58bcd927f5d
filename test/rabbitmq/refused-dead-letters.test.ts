import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'
import { QueueConsumers } from '../support/subjects/queue-consumers.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const target = useTarget()
const root = useRoot(target, mainKind(target))

const dies = (): never => {
  throw new PermanentError('no such order')
}

const REFUSED: readonly (readonly [string, { id?: string; headers?: Record<string, string> }])[] = [
  ['an id of 256 bytes', { id: 'ж'.repeat(128) }],
  ['a header CC', { headers: { tenant: 'a', CC: 'b' } }],
  ['a header name of 300 bytes', { headers: { tenant: 'a', ['n'.repeat(300)]: 'v' } }],
  ['headers of 65,300 bytes', { headers: { tenant: 'a', large: 'x'.repeat(65_400) } }],
]

test.each(REFUSED)(
  'C10 a stored queue keeps a message whose dead letter RabbitMQ refuses for good, and others are handled: %s',
  async (_, sent) => {
    const consumers = new QueueConsumers(target, root)
    const deadLetters = broker.publisher({ exchange: '' })
    await consumers.subject.send({ ...sent, payload: { isBad: true } }, { payload: { isBad: false } })
    await consumers.start((_tx, { payload }) => ((payload as { isBad: boolean }).isBad ? dies() : 1), {
      deadLetters,
      deadLetterTopic: await broker.queue(),
      concurrency: 1,
    })
    await consumers.heard('dead-lettered')
    await consumers.heard('handled')
    expect(consumers.count('error')).toBe(1)
    const messages = await consumers.subject.queue.deadLetters.list()
    expect(messages.map(({ error }) => error)).toMatchObject([
      expect.stringMatching(/^no such order \(PermanentError at dies .*refused-dead-letters\.test\.ts/),
    ])
  },
)

test.each(REFUSED)(
  'C10 a reduced dead letter is published for a message that RabbitMQ refuses for good: %s',
  async (_, { id = 'm1', headers = {} }) => {
    const graveyard = await broker.queue()
    const source = new MemorySource({ keepsRejected: false })
    const events: ConsumerUnderTest['events'] = []
    const consumer = createConsumer({
      source,
      name: 'orders',
      logger: false,
      deadLetters: broker.publisher({ exchange: '' }),
      deadLetterTopic: graveyard,
      handler: dies,
    })
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    source.send(id, { headers, payload: { n: 7 } })
    await consumer.start()
    await until(
      async () => source.left.length === 0,
      () => JSON.stringify(events),
    )
    const letters = await broker.take(graveyard)
    expect(letters.length).toBe(1)
    const [{ content, properties }] = letters as [(typeof letters)[0]]
    expect(JSON.parse(content.toString())).toEqual({ n: 7 })
    expect(properties.messageId).not.toBe(id)
    expect(properties.headers).toMatchObject({
      'txbox-original-id': id,
      'txbox-error': expect.stringMatching(/^no such order \(PermanentError/),
    })
    const large = Object.keys(headers).filter((name) => name !== 'tenant')
    for (const name of large) {
      expect(properties.headers!['txbox-left-out']).toContain(`header ${name.slice(0, 200)}`)
    }
    expect(events.map(({ event }) => event)).toEqual(['error', 'dead-lettered'])
  },
)

test('C10 a message from RabbitMQ whose headers have no room for the reason becomes a reduced dead letter', async () => {
  const graveyard = await broker.queue()
  const queue = await broker.queue({ type: 'quorum' })
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue }),
    name: 'orders',
    logger: false,
    deadLetters: broker.publisher({ exchange: '' }),
    deadLetterTopic: graveyard,
    handler: dies,
  })
  onTestFinished(() => consumer.stop())
  const headers = { tenant: 'a', large: 'x'.repeat(65_300) }
  broker.channel.sendToQueue(queue, Buffer.from('{"n":7.0}'), { messageId: 'm1', headers })
  await consumer.start()
  await until(
    async () => (await broker.channel.checkQueue(graveyard)).messageCount === 1,
    () => 'messages in the graveyard: 1',
  )
  const [letter] = await broker.take(graveyard)
  expect(letter!.content.toString()).toBe('{"n":7.0}')
  expect(letter!.properties.headers).toMatchObject({ tenant: 'a', 'txbox-original-id': 'm1' })
  expect(letter!.properties.headers!['txbox-left-out']).toBe('header large')
  await until(
    async () => (await broker.channel.checkQueue(queue)).messageCount === 0,
    () => 'messages in the queue: 0',
  )
})
