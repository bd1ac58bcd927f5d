import { setTimeout as pause } from 'node:timers/promises'
import type { Message } from '@aws-sdk/client-sqs'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { sqsSource } from '@txbox/sqs'
import { until } from '../support/worlds/until.ts'
import { NEVER, entry, idsOf, openerOf, receive } from './receiving.ts'
import { attributeOf, useSqs } from './sqs-under-test.ts'

const sqs = useSqs()
const opened = openerOf(sqs)

test('C18 one receive returns as many messages as are wanted, by several requests', async () => {
  const queue = await sqs.current.queue()
  await sqs.current.send(
    queue,
    Array.from({ length: 60 }, (_, n) => entry(`m${n}`)),
  )
  const open = await opened({ queue }, 50)
  const deliveries = await open.receive(50, { signal: NEVER })
  expect(new Set(idsOf(deliveries)).size).toBe(50)
  await Promise.all(deliveries.map((each) => each.accept()))
  await open.close()
  expect(await sqs.current.counts(queue)).toEqual({ ready: 10, out: 0 })
})

test('what comes while nobody waits is given back at once', async () => {
  const queue = await sqs.current.queue()
  const open = await opened({ queue })
  const stop = new AbortController()
  const receiving = open.receive(1, { signal: stop.signal })
  await pause(100)
  stop.abort()
  expect(await receiving).toEqual([])
  await sqs.current.send(queue, [entry('a')])
  await until(
    async () => (await sqs.current.counts(queue)).ready === 1,
    async () => `it is in the queue: ${JSON.stringify(await sqs.current.counts(queue))}`,
  )
  expect(idsOf(await receive(open, 1))).toEqual(['a'])
})

test('a retry after more than twelve hours is kept for twelve', async () => {
  const queue = await sqs.current.queue()
  await sqs.current.send(queue, [entry('a')])
  const open = await opened({ queue })
  const [delivery] = await receive(open, 1)
  await delivery!.retry({ delayMs: 86_400_000, error: new Error('later'), counted: true })
  expect(await sqs.current.counts(queue)).toEqual({ ready: 0, out: 1 })
})

test('C10 the dead letter of a message has its body, its attributes and the reason', async () => {
  const [queue, deadLetterQueue] = [await sqs.current.queue(), await sqs.current.queue()]
  await sqs.current.send(queue, [
    {
      ...entry('broken', undefined, 'no JSON'),
      MessageAttributes: {
        ...entry('broken').MessageAttributes,
        tenant: { DataType: 'String', StringValue: 'north' },
      },
    },
    entry('good'),
    { MessageBody: '{"n":3}' },
  ])
  const handled: string[] = []
  const consumer = createConsumer({
    source: sqsSource({ client: sqs.current.client, queue, deadLetterQueue, waitMs: 1000 }),
    name: 'billing',
    handler: async ({ id }) => void handled.push(id),
    logger: false,
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await until(
    async () => (await sqs.current.counts(deadLetterQueue)).ready === 2,
    () => 'both dead letters are kept',
  )
  await consumer.stop()
  expect(handled).toEqual(['good'])
  const dead = await sqs.current.take(deadLetterQueue)
  const broken = dead.find(({ Body }) => Body === 'no JSON')!
  expect(textsOf(broken)).toEqual({
    'txbox-id': 'broken',
    tenant: 'north',
    'txbox-error': expect.stringContaining('its payload is not JSON'),
    'txbox-deliveries': '1',
    'txbox-source': `sqs ${queue}`,
  })
  // A message without an id.
  expect(dead.some(({ Body }) => Body === '{"n":3}')).toBe(true)
})

test('the options id and key read messages of other producers', async () => {
  const queue = await sqs.current.queue({ fifo: true })
  const bodies = ['{"order":1}', '{"order":2}', '{}']
  await sqs.current.send(
    queue,
    bodies.map((MessageBody, n) => ({
      MessageBody,
      MessageGroupId: `g${n}`,
      MessageDeduplicationId: `${n}`,
    })),
  )
  const orderIn = ({ Body = '' }: { readonly Body?: string | undefined }): string => {
    const { order } = JSON.parse(Body) as { order?: number }
    if (order === undefined) throw new Error('no order')
    return `order ${order}`
  }
  const open = await opened({ queue, id: orderIn })
  const deliveries = await receive(open, 3)
  const read = deliveries.map(({ message, key }) => `${message.id} ${key}`)
  expect(read.toSorted()).toEqual([' g2', 'order 1 g0', 'order 2 g1'])
  const unread = deliveries.find(({ key }) => key === 'g2')
  expect(String(unread!.undecodable)).toContain("the option 'id' threw")
})

function textsOf(message: Message): Record<string, string | undefined> {
  const names = Object.keys(message.MessageAttributes ?? {})
  return Object.fromEntries(names.map((name) => [name, attributeOf(message, name)]))
}

const QUEUE = { queue: 'orders' }
test.for([
  ['no queue', () => sqsSource({} as never)],
  ['an unknown option', () => sqsSource({ ...QUEUE, prefetch: 1 } as never)],
  ['a queue with a blank', () => sqsSource({ queue: 'a b' })],
  ['the ARN of a topic', () => sqsSource({ queue: 'arn:aws:sns:eu-central-1:123456789012:orders' })],
  [
    'a FIFO queue for the dead letters of another',
    () => sqsSource({ ...QUEUE, deadLetterQueue: 'dead.fifo' }),
  ],
  [
    'another queue for the dead letters of FIFO',
    () => sqsSource({ queue: 'a.fifo', deadLetterQueue: 'dead' }),
  ],
  ['too short a timeout', () => sqsSource({ ...QUEUE, visibilityTimeoutMs: 999 })],
  ['too long a timeout', () => sqsSource({ ...QUEUE, visibilityTimeoutMs: 43_200_001 })],
  ['too long a wait', () => sqsSource({ ...QUEUE, waitMs: 20_001 })],
  ['an id that is text', () => sqsSource({ ...QUEUE, id: 'id' as never })],
  ['a client that is none', () => sqsSource({ ...QUEUE, client: {} as never })],
] as const)('U1 %s is an InvalidOptionError', ([, make]) => {
  expect(make).toThrow(expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }))
})
