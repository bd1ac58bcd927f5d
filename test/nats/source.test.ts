import { headers } from '@nats-io/transport-node'
import { jetstream } from '@nats-io/jetstream'
import { expect, onTestFinished, test } from 'vitest'
import { natsSource, type Delivery, type NatsSourceOptions, type OpenSource } from '@txbox/nats'
import { signal } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'
import { useNats } from './nats-under-test.ts'

const nats = useNats()

async function open(
  stream: string,
  options: Partial<NatsSourceOptions> = {},
  prefetch = 10,
): Promise<OpenSource> {
  const source = natsSource({ servers: nats.url, stream, consumer: 'billing', declare: {}, ...options })
  const opened = await source.open({ prefetch, failed: () => undefined })
  onTestFinished(() => opened.close())
  return opened
}

async function receive(opened: OpenSource, count = 1): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  while (deliveries.length < count) {
    deliveries.push(...(await opened.receive(count - deliveries.length, { signal: signal() })))
  }
  return deliveries
}

async function unsettledOf(stream: string): Promise<number> {
  const { num_pending: unseen, num_ack_pending: unsettled } = await nats.manager.consumers.info(
    stream,
    'billing',
  )
  return unseen + unsettled
}

test('a rejected message is not delivered again', async () => {
  const stream = await nats.stream()
  const opened = await open(stream)
  await nats.send(`${stream}.a`, ['a'])
  const [delivery] = await receive(opened)
  await delivery!.reject({ error: new Error('never') })
  await opened.close()
  expect(await unsettledOf(stream)).toBe(0)
})

test('JetStream keeps the delay of a retry', async () => {
  const stream = await nats.stream()
  const opened = await open(stream)
  await nats.send(`${stream}.a`, ['a'])
  const [first] = await receive(opened)
  const began = performance.now()
  await first!.retry({ delayMs: 400.5, error: undefined, counted: true })
  const [second] = await receive(opened)
  expect(performance.now() - began).toBeGreaterThan(375)
  expect(second!.deliveries).toBe(2)
})

test('a message that leaves for a counted retry keeps its count; one whose retry does not count is held', async () => {
  const stream = await nats.stream()
  const opened = await open(stream)
  await nats.send(`${stream}.a`, ['a'])
  const [first] = await receive(opened)
  const postponement = { delayMs: 1, error: undefined, counted: true, deliveries: 5 }
  expect(await first!.postpone!({ ...postponement, counted: false, deliveries: 0 })).toBe(false)
  expect(await first!.postpone!(postponement)).toBe(true)
  const [second] = await receive(opened)
  expect(second!.deliveries).toBe(6)
  expect(await second!.postpone!({ ...postponement, deliveries: 1 })).toBe(true)
  expect((await receive(opened))[0]!.deliveries).toBe(2)
})

test('a message that cannot be decoded comes with what could be read, and as it was received', async () => {
  const stream = await nats.stream()
  const opened = await open(stream)
  await nats.send(`${stream}.a`, ['broken'], '{"n"', 'key')
  const [delivery] = await receive(opened)
  expect(String(delivery!.undecodable)).toContain('its payload is not JSON')
  expect(delivery).toMatchObject({ message: { id: 'broken' }, key: 'key' })
  expect(Buffer.from(delivery!.body!.bytes).toString()).toBe('{"n"')
})

test('messages of other producers: ids and keys by functions, and what they throw', async () => {
  const stream = await nats.stream()
  const opened = await open(stream, {
    id: ({ headers: given }) => new Map(given).get('own-id')?.[0],
    key: ({ subject }) => {
      if (subject.endsWith('.bad')) throw new Error('no key')
      return subject.split('.').at(-1)
    },
  })
  const client = jetstream(nats.connection)
  const own = headers()
  own.set('own-id', '7')
  await client.publish(`${stream}.north`, '1', { headers: own })
  await client.publish(`${stream}.south`, '2')
  await client.publish(`${stream}.bad`, '3')
  const [first, second, third] = await receive(opened, 3)
  expect(first).toMatchObject({ message: { id: '7', headers: { 'own-id': '7' }, payload: 1 }, key: 'north' })
  expect(first!.message.time).toBeInstanceOf(Date)
  expect(second).toMatchObject({ message: { id: '', payload: 2 }, key: 'south' })
  expect(String(third!.undecodable)).toContain("the option 'key' threw an error")
})

test('a handler that changes its message does not change the next attempt', async () => {
  const stream = await nats.stream()
  const opened = await open(stream)
  const fields = headers()
  fields.set('content-type', 'application/octet-stream')
  await jetstream(nats.connection).publish(`${stream}.a`, 'abc', { msgID: 'a', headers: fields })
  const [delivery] = await receive(opened)
  ;(delivery!.message.payload as Uint8Array)[0] = 0
  expect(Buffer.from(delivery!.decodeAgain!().payload as Uint8Array).toString()).toBe('abc')
})

test('a receive that ends takes its request back: later messages go to other consumers at once', async () => {
  const stream = await nats.stream()
  const [paused, other] = [await open(stream), await open(stream)]
  const stop = new AbortController()
  const receiving = paused.receive(10, { signal: stop.signal })
  await new Promise((resolve) => setTimeout(resolve, 100))
  stop.abort()
  expect(await receiving).toEqual([])
  const ids = ['a', 'b', 'c', 'd']
  await new Promise((resolve) => setTimeout(resolve, 50))
  await nats.send(`${stream}.a`, ids)
  const deliveries = await receive(other, 4)
  expect(deliveries.map((each) => [each.message.id, each.deliveries])).toEqual(ids.map((id) => [id, 1]))
})

test('a source that stops receiving settles what it has, and takes nothing more', async () => {
  const stream = await nats.stream()
  const opened = await open(stream, {}, 2)
  await nats.send(`${stream}.a`, ['a', 'b', 'c', 'd'])
  const [a, b] = await receive(opened, 2)
  const waiting = opened.receive(1, { signal: signal() })
  opened.stopReceiving!()
  expect(await waiting).toEqual([])
  await a!.accept()
  expect(await opened.receive(1, { signal: signal() })).toEqual([])
  await opened.close()
  expect(b!.lost.aborted).toBe(true)
  expect(await unsettledOf(stream)).toBe(3)
  // What was given back comes at once, and not when its lease is over.
  const began = performance.now()
  const again = await receive(await open(stream), 3)
  expect(again.map(({ message }) => message.id).toSorted()).toEqual(['b', 'c', 'd'])
  expect(performance.now() - began).toBeLessThan(10_000)
})

test('a source that closes while its server is away disconnects in time', async () => {
  const between = await nats.network()
  const stream = await nats.stream()
  const { host, port } = between.address
  const opened = await open(stream, { servers: `nats://${host}:${port}` })
  await nats.send(`${stream}.a`, ['a', 'b'])
  const [a, b] = await receive(opened, 2)
  between.freeze()
  const accepting = a!.accept()
  const began = performance.now()
  await opened.close({ signal: AbortSignal.timeout(300) })
  expect(performance.now() - began).toBeLessThan(1000)
  await accepting
  expect(b!.lost.aborted).toBe(true)
})

test('an acceptance is sent again when the connection breaks before its answer', async () => {
  const between = await nats.network()
  const stream = await nats.stream()
  const { host, port } = between.address
  const opened = await open(stream, { servers: `nats://${host}:${port}` })
  await nats.send(`${stream}.a`, ['a', 'b'])
  const [a, b] = await receive(opened, 2)
  between.freeze()
  const accepting = Promise.all([a!.accept(), b!.accept({ recorded: true })])
  await new Promise((resolve) => setTimeout(resolve, 50))
  between.cut()
  between.thaw()
  await accepting
  await until(
    async () => (await unsettledOf(stream)) === 0,
    () => 'both are accepted',
  )
})
