import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Delivery } from '@txbox/consumer'
import { redisSource } from '@txbox/redis'
import { freePort } from '../support/engines/servers/free-port.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { GROUP, add, idsOf, opened, receive } from './group-under-test.ts'
import { useRedis } from './redis-under-test.ts'
import { StreamLog, leftIn, urlAt } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()

test('a consumer whose lease was over settles nothing of the next consumer', async () => {
  const stream = uniqueName()
  const one = await opened(redis, { stream })
  await add(redis, stream, ['a', 'b', 'c', 'd'])
  const old = await receive(one.open, 4)
  const ids = await redis.ask('XPENDING', stream, GROUP, '-', '+', '4')
  for (const [id] of ids as [string][]) await redis.ask('XCLAIM', stream, GROUP, 'other', '0', id)
  await old[0]!.accept()
  await old[1]!.reject({ error: new Error('late') })
  await old[2]!.retry({ delayMs: 0, error: undefined, counted: true })
  await old[3]!.extend!(1000)
  expect(old.map(({ lost }) => lost.aborted)).toEqual([true, true, true, true])
  const pending = (await redis.ask('XPENDING', stream, GROUP, '-', '+', '9')) as [string, string][]
  expect(pending.map(([, owner]) => owner)).toEqual(['other', 'other', 'other', 'other'])
  expect(await redis.ask('EXISTS', `{${stream}}:${GROUP}:dead`)).toBe(0)
})

test.for([false, true])(
  'of messages that are accepted together in any order, only that of another consumer is lost (deleteAccepted: %s)',
  async (deleteAccepted) => {
    const stream = uniqueName()
    const one = await opened(redis, { stream, leaseMs: 60_000, deleteAccepted })
    const ids = await add(redis, stream, ['a', 'b', 'c', 'd', 'e', 'f'])
    const held = await receive(one.open, 6)
    const taken = held.find(({ message }) => message.id === 'c')!
    await redis.ask('XCLAIM', stream, GROUP, 'other', '0', ids[2]!)
    const orders = [
      ['e', 'b', 'c', 'd'],
      ['a', 'f'],
    ]
    for (const order of orders) {
      await Promise.all(order.map((id) => held.find(({ message }) => message.id === id)!.accept()))
    }
    expect(held.filter(({ lost }) => lost.aborted)).toEqual([taken])
    const pending = (await redis.ask('XPENDING', stream, GROUP, '-', '+', '9')) as [string, string][]
    expect(pending.map(([id, owner]) => [id, owner])).toEqual([[ids[2], 'other']])
    expect(await redis.ask('XLEN', stream)).toBe(deleteAccepted ? 1 : 6)
  },
)

test.for([
  [
    'a new group of the same name',
    async (stream: string): Promise<void> => {
      await redis.ask('XGROUP', 'DESTROY', stream, GROUP)
      await redis.ask('XGROUP', 'CREATE', stream, GROUP, '0')
      await redis.ask('XREADGROUP', 'GROUP', GROUP, 'other', 'STREAMS', stream, '>')
    },
  ],
  [
    'an XCLAIM by hand',
    async (stream: string, id: string): Promise<void> => {
      await redis.ask('XCLAIM', stream, GROUP, 'other', '0', id)
    },
  ],
] as const)(
  'a retry that is due takes the message from no consumer that has received it by %s',
  async ([, take]) => {
    const stream = uniqueName()
    const one = await opened(redis, { stream, leaseMs: 60_000 })
    const [id] = await add(redis, stream, ['a'])
    const [delivery] = await receive(one.open, 1)
    await delivery!.retry({ delayMs: 100, error: undefined, counted: true })
    await take(stream, id!)
    const next = await opened(redis, { stream, leaseMs: 60_000 })
    await until(
      async () => {
        expect(await next.open.receive(1, { signal: AbortSignal.timeout(200) })).toEqual([])
        return (await redis.ask('EXISTS', `{${stream}}:${GROUP}:due`)) === 0
      },
      () => 'the time at which it was due is over',
    )
    const pending = (await redis.ask('XPENDING', stream, GROUP, '-', '+', '9')) as [string, string][]
    expect(pending.map(([, owner]) => owner)).toEqual(['other'])
  },
)

test('what a consumer has left is delivered again after the lease, each once, however little room there is', async () => {
  const stream = uniqueName()
  const ids = Array.from({ length: 300 }, (_, n) => `m${n}`)
  await add(redis, stream, ids)
  await redis.ask('XGROUP', 'CREATE', stream, GROUP, '0')
  await redis.ask('XREADGROUP', 'GROUP', GROUP, 'killed', 'COUNT', '300', 'STREAMS', stream, '>')
  const subjects = await Promise.all([5, 1].map((prefetch) => opened(redis, { stream }, prefetch)))
  const received: Delivery[] = []
  await Promise.all(
    subjects.map(async ({ open }) => {
      while (received.length < ids.length) {
        for (const delivery of await open.receive(5, { signal: AbortSignal.timeout(3000) })) {
          received.push(delivery)
          await delivery.accept()
        }
      }
    }),
  )
  expect(idsOf(received)).toEqual(ids.toSorted())
  expect(new Set(received.map(({ deliveries }) => deliveries))).toEqual(new Set([2]))
  expect(await leftIn(redis, stream, GROUP)).toBe(0)
})

test('entries that were deleted before they were handled are reported, and hold up nothing', async () => {
  const stream = uniqueName()
  const one = await opened(redis, { stream })
  const ids = await add(redis, stream, ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  const held = await receive(one.open, 7)
  const by = (id: string): Delivery => held.find(({ message }) => message.id === id)!
  await redis.ask('XDEL', stream, ...ids.slice(0, 6))
  // What a handler has goes on, and is settled.
  for (const id of ['a', 'b']) {
    await by(id).extend!(1000)
    await by(id).extend!(1000)
    expect(by(id).lost.aborted).toBe(false)
  }
  await by('a').accept()
  await by('b').reject({ error: new Error('never') })
  await by('c').accept()
  expect([by('a'), by('b'), by('c')].map(({ lost }) => lost.aborted)).toEqual([false, false, false])
  expect(await new StreamLog(redis, `{${stream}}:${GROUP}:dead`).ids()).toEqual(['b'])
  expect(one.warnings).toEqual([])
  const text = 'deleted before they were handled, by XDEL or because the stream was trimmed: '
  await by('d').retry({ delayMs: 0, error: undefined, counted: true })
  expect(one.warnings.join()).toContain(`${text}${ids[3]}.`)
  await one.open.close()
  expect(one.warnings.at(-1)).toContain(`${text}${ids[4]}, ${ids[5]}.`)
  const other = await opened(redis, { stream })
  await redis.ask('XDEL', stream, ids[6]!)
  const [last] = await add(redis, stream, ['last'])
  expect(idsOf(await receive(other.open, 1))).toEqual(['last'])
  expect(other.warnings.join()).toContain(`${text}${ids[6]}.`)
  const pending = (await redis.ask('XPENDING', stream, GROUP)) as [number, string]
  expect(pending.slice(0, 2)).toEqual([1, last])
})

test('after FLUSHALL a consumer creates its group again, and receives everything that came later', async () => {
  const stream = uniqueName()
  const handled: string[] = []
  const consumer = createConsumer({
    source: redisSource({ url: urlAt(redis.address), stream, group: GROUP, declare: { from: 'latest' } }),
    name: GROUP,
    logger: false,
    handler: async ({ id }) => void handled.push(id),
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await add(redis, stream, ['a'])
  await until(
    async () => handled.includes('a'),
    () => 'the first message is handled',
  )
  await redis.ask('FLUSHALL')
  await add(redis, stream, ['b'])
  await until(
    async () => handled.includes('b'),
    () => `the second message is handled: ${handled.join()}`,
  )
  expect(handled).toEqual(['a', 'b'])
})

test('a consumer goes on after a server that accepted connections and answered nothing', async () => {
  const network = await UnreliableNetwork.to(redis.address)
  onTestFinished(() => network.close())
  const stream = uniqueName()
  const handled: string[] = []
  const consumer = createConsumer({
    source: redisSource({
      url: urlAt(network.address),
      stream,
      group: GROUP,
      leaseMs: 1000,
      confirmTimeoutMs: 500,
      connectTimeoutMs: 500,
    }),
    name: GROUP,
    logger: false,
    handler: async ({ id }) => void handled.push(id),
  })
  onTestFinished(() => consumer.stop())
  const outages: unknown[] = []
  consumer.on('unavailable', ({ error }) => void outages.push(error))
  await consumer.start()
  network.freeze()
  await add(redis, stream, ['a'])
  await until(
    async () => outages.length > 0,
    () => 'the consumer reports the outage',
  )
  expect(String(outages[0])).toContain('did not answer within')
  network.thaw()
  await until(
    async () => handled.includes('a'),
    () => 'the message is handled',
  )
})

test('a message that cannot be decoded is a delivery, with what can be read', async () => {
  const stream = uniqueName()
  const { open } = await opened(redis, { stream })
  await redis.ask('XADD', stream, '*', 'id', 'a', 'key', 'k', 'payload', 'no JSON')
  await redis.ask('XADD', stream, '*', 'id', 'b', 'headers', '[1]', 'payload', '{}')
  await redis.ask('XADD', stream, '*', 'foreign', 'field')
  const [a, b, c] = await receive(open, 3)
  expect(a).toMatchObject({ message: { id: 'a' }, key: 'k', undecodable: { code: 'TXBOX_INVALID_MESSAGE' } })
  expect(String(a!.undecodable)).not.toContain('no JSON')
  expect(Buffer.from(a!.body!.bytes).toString()).toBe('no JSON')
  expect(b).toMatchObject({ message: { id: 'b' }, undecodable: { code: 'TXBOX_INVALID_MESSAGE' } })
  expect(c).toMatchObject({ message: { id: '' }, undecodable: { code: 'TXBOX_INVALID_MESSAGE' } })
})

test('a source that cannot connect says why, by each client', async () => {
  const port = await freePort()
  const ioredis = new Redis({ port, lazyConnect: true })
  const nodeRedis = createClient({ socket: { host: '127.0.0.1', port } })
  for (const from of [
    { url: urlAt({ host: '127.0.0.1', port }) },
    { client: ioredis },
    { client: nodeRedis },
  ]) {
    const source = redisSource({ ...from, stream: 'orders', group: GROUP })
    await expect(source.open({ prefetch: 1, failed: () => undefined })).rejects.toMatchObject({
      code: 'TXBOX_BROKER_UNAVAILABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    })
  }
})
