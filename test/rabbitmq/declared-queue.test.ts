import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, InvalidOptionError, type Logger } from '@txbox/consumer'
import { rabbitmqSource, type RabbitmqQueueDeclaration } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { failure, useBroker } from './broker-under-test.ts'

const broker = useBroker()

function newQueue(): string {
  const queue = broker.name('queue')
  broker.deleteAfterwards(queue)
  return queue
}

const open = (queue: string, declare: RabbitmqQueueDeclaration) =>
  rabbitmqSource({ url: broker.url, queue, declare, keepsRejected: true }).open({
    prefetch: 1,
    failed: () => undefined,
  })

async function isAtLeast(version: number): Promise<boolean> {
  const properties = Reflect.get(broker.channel.connection, 'serverProperties') as { version: string }
  return Number.parseFloat(properties.version) >= version
}

test('C24 a queue that is deleted while it is consumed is made again with its bindings, and the consumer says that it receives again', async () => {
  const queue = newQueue()
  const topic = await broker.exchange('topic')
  const headers = await broker.exchange('headers')
  const lines: string[] = []
  const line = (_about: object, text: string): void => void lines.push(text)
  const logger: Logger = { debug: () => undefined, info: line, warn: line, error: line }
  const handled: string[] = []
  const consumer = createConsumer({
    source: rabbitmqSource({
      ...{ url: broker.url, queue, keepsRejected: true },
      declare: {
        type: 'quorum',
        bindings: [
          { exchange: topic, routingKey: 'order.*' },
          { exchange: headers, routingKey: '', arguments: { 'x-match': 'all', kind: 'order' } },
        ],
      },
    }),
    name: 'orders',
    logger,
    handler: ({ id }) => void handled.push(id),
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  for (const round of [1, 2]) {
    const ids = [`topic ${round}`, `headers ${round}`] as const
    broker.channel.publish(topic, 'order.paid', Buffer.from('{}'), { messageId: ids[0] })
    broker.channel.publish(headers, '', Buffer.from('{}'), { messageId: ids[1], headers: { kind: 'order' } })
    await until(
      async () => ids.every((id) => handled.includes(id)),
      () => `${ids.join()} are handled: ${handled.join()}`,
    )
    if (round === 2) break
    await broker.channel.deleteQueue(queue)
    await until(
      async () => lines.some((text) => text.includes('receives again')),
      () => `the consumer receives again: ${lines.join('\n')}`,
    )
  }
  expect(lines.filter((text) => text.includes('receives again'))).toEqual([
    expect.stringMatching(`^The consumer orders receives again from rabbitmq ${queue}, after .*\\.$`),
  ])
})

test('an exchange of a binding that does not exist is named, with the advice to create it', async () => {
  const error = await failure(
    open(newQueue(), { type: 'quorum', bindings: [{ exchange: 'no-such-exchange', routingKey: '' }] }),
  )
  expect(error.message).toMatch(/404 NOT_FOUND - no exchange 'no-such-exchange'.* Create the exchange before/)
})

const changed: [string, object, RabbitmqQueueDeclaration, string][] = [
  ['type', { 'x-queue-type': 'classic' }, { type: 'quorum' }, 'declare.type'],
  [
    'dead letter exchange',
    { 'x-queue-type': 'quorum' },
    { type: 'quorum', deadLetterExchange: 'amq.fanout' },
    'declare.deadLetterExchange',
  ],
  [
    'single active consumer',
    { 'x-queue-type': 'classic', 'x-single-active-consumer': true },
    { type: 'classic' },
    'declare.singleActiveConsumer',
  ],
  [
    'delivery limit',
    { 'x-queue-type': 'quorum', 'x-delivery-limit': 5 },
    { type: 'quorum', deliveryLimit: 6 },
    'declare.deliveryLimit',
  ],
]

for (const [what, existing, declare, option] of changed) {
  test(`a queue that exists with another ${what} is refused, with the option to change`, async () => {
    const queue = newQueue()
    await broker.channel.assertQueue(queue, { arguments: existing })
    const { message } = await failure(open(queue, declare))
    expect(message).toContain('406 PRECONDITION_FAILED')
    expect(message).toContain(`'${option}'`)
    expect(message).toContain("remove the option 'declare' and say with 'keepsRejected'")
  })
}

test('C11 on RabbitMQ 4.3 or later a declared queue delays its retries itself, and on earlier versions the option is refused', async () => {
  const queue = newQueue()
  const declare = { type: 'quorum', delayedRetry: { minMs: 300, maxMs: 600 } } as const
  if (!(await isAtLeast(4.3))) {
    const { message } = await failure(open(queue, declare))
    expect(message).toMatch(/'declare\.delayedRetry' needs RabbitMQ 4\.3 or later, and this is RabbitMQ \d/)
    return
  }
  const source = await open(queue, declare)
  onTestFinished(() => source.close())
  broker.channel.sendToQueue(queue, Buffer.from('{}'), { messageId: 'a' })
  const signal = new AbortController().signal
  for (const [n, delayMs] of [300, 600, 600].entries()) {
    const [delivery] = await source.receive(1, { signal })
    expect(delivery!.deliveries).toBe(n + 1)
    const how = { delayMs: 1, error: undefined, deliveries: n + 1 }
    // An uncounted retry would not be delayed.
    expect(await delivery!.postpone?.({ ...how, counted: false })).toBe(false)
    const sentAt = performance.now()
    expect(await delivery!.postpone?.({ ...how, counted: true })).toBe(true)
    const [again] = await source.receive(1, { signal })
    expect(performance.now() - sentAt).toBeGreaterThan(delayMs * 0.9)
    await again!.retry({ delayMs: 0, error: undefined, counted: false })
  }
})

const wrong: [string, object, RegExp][] = [
  ['bindings that are no list', { bindings: {} }, /'bindings' must be a list/],
  [
    'the default exchange',
    { bindings: [{ exchange: '', routingKey: 'a' }] },
    /bindings\[0\].*'exchange' must be/,
  ],
  ['no routing key', { bindings: [{ exchange: 'a' }] }, /'routingKey' must be text/],
  [
    'a misspelt member',
    { bindings: [{ exchange: 'a', routingKey: '', args: {} }] },
    /there is no option 'args'/,
  ],
  [
    'arguments that are a list',
    { bindings: [{ exchange: 'a', routingKey: '', arguments: [] }] },
    /'arguments' must be an object/,
  ],
  [
    'delayed retries of a classic queue',
    { type: 'classic', delayedRetry: { minMs: 1 } },
    /'delayedRetry' must be absent/,
  ],
  ['no delay', { delayedRetry: {} }, /'minMs' must be a whole number/],
  [
    'a longest delay below the first',
    { delayedRetry: { minMs: 10, maxMs: 9 } },
    /'maxMs' must be a whole number from 10/,
  ],
]

for (const [name, declare, text] of wrong) {
  test(`${name} in declare is an InvalidOptionError when the source is created`, () => {
    const make = (): unknown =>
      rabbitmqSource({
        ...{ url: broker.url, queue: 'a' },
        declare: Object.assign({ type: 'quorum' } as RabbitmqQueueDeclaration, declare),
      })
    expect(make).toThrow(InvalidOptionError)
    expect(make).toThrow(text)
  })
}

test('a consumer of a queue that keeps no rejected messages names the options that change it', () => {
  const make = (): unknown =>
    createConsumer({
      source: rabbitmqSource({ url: broker.url, queue: 'a', declare: { type: 'quorum' } }),
      name: 'orders',
      handler: () => undefined,
    })
  expect(make).toThrow(/'deadLetters'.*'declare\.deadLetterExchange'.*'keepsRejected: true'/)
})
