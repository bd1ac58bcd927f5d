import { SNSClient } from '@aws-sdk/client-sns'
import { expect, onTestFinished, test } from 'vitest'
import { fromSqs, type Publisher, type SqsPublisherOptions } from '@txbox/sqs'
import { messageTo, published } from '../published.ts'
import { attributeOf, clientSettings, useSqs } from '../sqs-under-test.ts'

// ElasticMQ has neither SNS nor a maximum message size of a queue, so that these tests run on fauxqs only.
const sqs = useSqs()

function publisher(options: SqsPublisherOptions = {}): Publisher {
  const snsClient = new SNSClient(clientSettings(sqs.current.endpoint))
  onTestFinished(() => snsClient.destroy())
  return sqs.current.publisher({ snsClient, ...options })
}

/** A topic, and a queue that subscribes to it. */
async function topicOf({
  fifo = false,
  raw = false,
  filter,
}: { fifo?: boolean; raw?: boolean; filter?: object } = {}) {
  const queue = await sqs.current.queue({ fifo })
  const name = `${sqs.current.name('topic')}${fifo ? '.fifo' : ''}`
  const { topicArn } = sqs.current.fauxqs!.createTopic(
    name,
    fifo ? { attributes: { FifoTopic: 'true' } } : {},
  )
  sqs.current.fauxqs!.subscribe({
    topic: name,
    queue,
    attributes: {
      ...(raw && { RawMessageDelivery: 'true' }),
      ...(filter !== undefined && { FilterPolicy: JSON.stringify(filter) }),
    },
  })
  return { queue, topicArn }
}

for (const raw of [false, true]) {
  test(`F6 a message of a topic is read back ${raw ? 'with raw delivery' : 'out of its envelope'}`, async () => {
    const { queue, topicArn } = await topicOf({ raw })
    const message = messageTo(topicArn, {
      ...{ type: 'order.paid', key: 'k', correlationId: 'c' },
      headers: { tenant: 'north', empty: '' },
      payload: Buffer.from('{"total":5,"name":"Zoë"}'),
    })
    const bytes = messageTo(topicArn, {
      payload: Uint8Array.of(0, 255),
      contentType: 'application/octet-stream',
    })
    expect(await published(publisher(), [message, bytes])).toEqual([
      { status: 'accepted' },
      { status: 'accepted' },
    ])
    const [first, second] = await sqs.current.take(queue)
    expect(attributeOf(first!, 'txbox-id')).toBe(raw ? message.id : undefined)
    expect(fromSqs(first!)).toEqual({
      ...{ id: message.id, type: 'order.paid', correlationId: 'c', time: message.createdAt },
      headers: { tenant: 'north', empty: '' },
      payload: { total: 5, name: 'Zoë' },
    })
    expect(fromSqs(second!).payload).toEqual(Uint8Array.of(0, 255))
  })
}

test('a topic and a queue of FIFO keep the order of a key, and drop resends', async () => {
  const { queue, topicArn } = await topicOf({ fifo: true, raw: true })
  const messages = Array.from({ length: 12 }, (_, n) =>
    messageTo(topicArn, { id: `m${n}`, key: `k${n % 2}` }),
  )
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const results = await published(publisher(), messages)
    expect(results.every(({ status }) => status === 'accepted')).toBe(true)
  }
  const received = await sqs.current.take(queue)
  for (const key of ['k0', 'k1']) {
    const own = received.filter((each) => attributeOf(each, 'txbox-key') === key)
    expect(own.map((each) => fromSqs(each).id)).toEqual(
      messages.filter((each) => each.key === key).map(({ id }) => id),
    )
  }
})

test('a filter policy sees the headers that the option attributes names', async () => {
  const { queue, topicArn } = await topicOf({ filter: { tenant: ['north'] } })
  const messages = ['north', 'south'].map((tenant) => messageTo(topicArn, { headers: { tenant } }))
  await published(publisher({ attributes: ['tenant'] }), messages)
  const received = await sqs.current.take(queue)
  expect(received.map((each) => fromSqs(each).id)).toEqual([messages[0]!.id])
  expect(fromSqs(received[0]!).headers).toEqual({ tenant: 'north' })
})

test('V2 a message for a topic may have 262,144 bytes with its attributes', async () => {
  const { topicArn } = await topicOf()
  const [small, large] = await published(
    publisher(),
    [200_000, 262_144].map((size) => messageTo(topicArn, { payload: Buffer.from('x'.repeat(size)) })),
  )
  expect(small).toEqual({ status: 'accepted' })
  expect(large).toMatchObject({ status: 'rejected', retryable: false })
  expect(String((large as { error: Error }).error)).toContain('SNS takes 262144')
})

test('O4 a topic that does not exist rejects its messages, and other destinations go on', async () => {
  const { queue } = await topicOf()
  const missing = `arn:aws:sns:eu-central-1:000000000000:${sqs.current.name('missing')}`
  const results = await published(publisher(), [messageTo(missing), messageTo(queue)])
  expect(results).toMatchObject([{ status: 'rejected', retryable: true }, { status: 'accepted' }])
})

test('a message that is larger than its queue takes is rejected for good, and its neighbors are accepted', async () => {
  const queue = await sqs.current.queue({ attributes: { MaximumMessageSize: '2048' } })
  const messages = [10, 4000, 10].map((size) => messageTo(queue, { payload: Buffer.from('x'.repeat(size)) }))
  const results = await published(sqs.current.publisher(), messages)
  expect(results).toMatchObject([
    { status: 'accepted' },
    { status: 'rejected', retryable: false },
    { status: 'accepted' },
  ])
})
