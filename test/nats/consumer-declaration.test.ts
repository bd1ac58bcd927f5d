import { expect, onTestFinished, test } from 'vitest'
import type { ConsumerConfig } from '@nats-io/jetstream'
import { natsSource, type NatsConsumerDeclaration, type OpenSource } from '@txbox/nats'
import { failure, signal } from '../support/subjects/publishing.ts'
import { useNats } from './nats-under-test.ts'

const nats = useNats()

interface Opening {
  readonly stream: string
  readonly declare?: NatsConsumerDeclaration
  readonly warned?: (text: string) => void
}

async function open({ stream, declare, warned }: Opening): Promise<OpenSource> {
  const source = natsSource({
    servers: nats.url,
    stream,
    consumer: 'billing',
    ...(declare === undefined ? {} : { declare }),
  })
  const opened = await source.open({ prefetch: 10, failed: () => undefined, ...(warned && { warned }) })
  onTestFinished(() => opened.close())
  return opened
}

async function receiveIds(opened: OpenSource, count: number): Promise<string[]> {
  const ids: string[] = []
  while (ids.length < count) {
    for (const delivery of await opened.receive(count - ids.length, { signal: signal() })) {
      ids.push(delivery.message.id)
      await delivery.accept()
    }
  }
  return ids
}

test('a consumer is created as declared, and found again', async () => {
  const stream = await nats.stream()
  const declare = { filterSubjects: [`${stream}.paid`], ackWaitMs: 7000, maxAckPending: 50 }
  await (await open({ stream, declare })).close()
  const { config } = await nats.manager.consumers.info(stream, 'billing')
  expect(config).toMatchObject({
    durable_name: 'billing',
    ack_policy: 'explicit',
    ack_wait: 7_000_000_000,
    max_ack_pending: 50,
    max_deliver: -1,
    deliver_policy: 'all',
    filter_subject: `${stream}.paid`,
  })
  await nats.send(`${stream}.other`, ['other'])
  await nats.send(`${stream}.paid`, ['paid'])
  expect(await receiveIds(await open({ stream, declare }), 1)).toEqual(['paid'])
})

test('a new consumer begins with what the stream holds, or with what comes', async () => {
  for (const from of ['earliest', 'latest'] as const) {
    const stream = await nats.stream()
    await nats.send(`${stream}.a`, ['before'])
    const opened = await open({ stream, declare: { from } })
    await nats.send(`${stream}.a`, ['after'])
    const expected = from === 'earliest' ? ['before', 'after'] : ['after']
    expect(await receiveIds(opened, expected.length)).toEqual(expected)
  }
})

test('several processes may declare a consumer at once', async () => {
  const stream = await nats.stream()
  await nats.send(`${stream}.a`, ['a', 'b', 'c'])
  const opened = await Promise.all(Array.from({ length: 5 }, () => open({ stream, declare: {} })))
  expect((await receiveIds(opened[0]!, 3)).toSorted()).toEqual(['a', 'b', 'c'])
})

test('several subjects need NATS 2.10, and older servers are refused', async () => {
  const stream = await nats.stream()
  const opening = open({ stream, declare: { filterSubjects: [`${stream}.a`, `${stream}.b`] } })
  if (!nats.isFrom210) {
    expect((await failure(opening)).message).toMatch(/2\.10/)
    return
  }
  const opened = await opening
  for (const subject of ['a', 'c', 'b']) await nats.send(`${stream}.${subject}`, [subject])
  expect(await receiveIds(opened, 2)).toEqual(['a', 'b'])
})

const USABLE: Partial<ConsumerConfig> = { durable_name: 'billing', ack_policy: 'explicit' }

test.for<readonly [string, Partial<ConsumerConfig>, NatsConsumerDeclaration | undefined, RegExp]>([
  ['acknowledges all before', { ack_policy: 'all' }, undefined, /ack_policy 'all'/],
  ['acknowledges nothing', { ack_policy: 'none' }, undefined, /ack_policy 'none'/],
  ['pushes', { deliver_subject: 'pushed' }, undefined, /is a push consumer/],
  [
    'waits less than the source',
    { ack_wait: 1_000_000_000 },
    undefined,
    /waits 1000 ms .* less than the 30000 ms/,
  ],
  ['backs off', { backoff: [1_000_000_000, 60_000_000_000], max_deliver: 5 }, undefined, /waits 1000 ms/],
  ['delivers no payloads', { headers_only: true }, undefined, /headers_only/],
  ['has another filter', {}, { filterSubjects: ['x'] }, /'filterSubjects' is \[\]/],
  ['has another ack_wait', {}, { ackWaitMs: 20_000 }, /'ackWaitMs' is 30000/],
  ['has another limit', {}, { maxAckPending: 7 }, /'maxAckPending' is 1000/],
  ['has another beginning', {}, { from: 'latest' }, /'from' is "earliest"/],
])('a consumer that %s is refused, with the reason', async ([, config, declare, expected]) => {
  const stream = await nats.stream()
  await nats.manager.consumers.add(stream, { ...USABLE, ...config })
  const error = await failure(open({ stream, ...(declare && { declare }) }))
  expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE', retryable: true })
  expect(error.message).toMatch(expected)
})

test('a missing stream and a missing consumer are named', async () => {
  const stream = await nats.stream()
  expect((await failure(open({ stream }))).message).toContain(
    `the stream '${stream}' has no consumer 'billing'`,
  )
  const missing = nats.name('missing')
  for (const declare of [undefined, {}]) {
    const error = await failure(open({ stream: missing, ...(declare && { declare }) }))
    expect(error.message).toContain(`there is no stream '${missing}'`)
  }
})

test('a limit of deliveries is warned of, once for each source', async () => {
  const stream = await nats.stream()
  await nats.manager.consumers.add(stream, { ...USABLE, max_deliver: 5 })
  const source = natsSource({ servers: nats.url, stream, consumer: 'billing' })
  const warnings: string[] = []
  for (let n = 0; n < 2; n += 1) {
    const how = { prefetch: 1, failed: () => undefined, warned: (text: string) => void warnings.push(text) }
    await (await source.open(how)).close()
  }
  expect(warnings).toEqual([expect.stringContaining('max_deliver 5')])
})

test('limits of requests for messages are kept', async () => {
  const stream = await nats.stream()
  await nats.manager.consumers.add(stream, { ...USABLE, max_batch: 2, max_expires: 200_000_000 })
  const opened = await open({ stream })
  const receiving = receiveIds(opened, 5)
  await new Promise((resolve) => setTimeout(resolve, 500))
  await nats.send(`${stream}.a`, ['a', 'b', 'c', 'd', 'e'])
  expect((await receiving).toSorted()).toEqual(['a', 'b', 'c', 'd', 'e'])
})
