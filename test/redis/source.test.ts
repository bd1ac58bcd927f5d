import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Delivery, type OpenSource } from '@txbox/consumer'
import { redisSource, type RedisSourceOptions } from '@txbox/redis'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { useRedis } from './redis-under-test.ts'
import { StreamLog, leftIn, publishingClient, textOf, urlAt } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()
const GROUP = 'billing'
const NEVER = new AbortController().signal

interface Opened {
  readonly stream: string
  readonly open: OpenSource
  readonly warnings: string[]
  readonly failures: unknown[]
}

async function opened(
  options: Partial<RedisSourceOptions> & { readonly stream: string },
  prefetch = 10,
): Promise<Opened> {
  const [warnings, failures]: [string[], unknown[]] = [[], []]
  const source = redisSource({ url: urlAt(redis.address), group: GROUP, leaseMs: 1000, ...options })
  const open = await source.open({
    prefetch,
    failed: (error) => void failures.push(error),
    warned: (text) => void warnings.push(text),
  })
  onTestFinished(() => open.close())
  return { stream: options.stream, open, warnings, failures }
}

async function add(stream: string, ids: readonly string[], ...fields: string[]): Promise<string[]> {
  return Promise.all(
    ids.map(async (id) =>
      String(await redis.ask('XADD', stream, '*', 'id', id, ...fields, 'payload', '{"n":1}')),
    ),
  )
}

async function receive(open: OpenSource, count: number): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  while (deliveries.length < count) {
    deliveries.push(...(await open.receive(count - deliveries.length, { signal: NEVER })))
  }
  return deliveries
}

const idsOf = (deliveries: readonly Delivery[]): string[] =>
  deliveries.map(({ message }) => message.id).toSorted()
const consumersOf = async (stream: string): Promise<string[]> => {
  const consumers = (await redis.ask('XINFO', 'CONSUMERS', stream, GROUP)) as string[][]
  return consumers.map((about) => String(about[1]))
}

test('a message that is postponed is delivered again when it is due, with its count, from whichever consumer', async () => {
  const stream = uniqueName()
  const [one, other] = [await opened({ stream }), await opened({ stream })]
  await add(stream, ['late', 'soon'], 'key', 'a')
  const deliveries = await receive(one.open, 2)
  const of = (id: string): Delivery => deliveries.find(({ message }) => message.id === id)!
  const how = { error: undefined, counted: true }
  const began = performance.now()
  // Longer than the lease.
  expect(await of('late').postpone!({ ...how, delayMs: 2500, deliveries: 7 })).toBe(true)
  await of('soon').retry({ ...how, delayMs: 300 })
  await one.open.close()
  const [soon] = await receive(other.open, 1)
  expect(soon).toMatchObject({ message: { id: 'soon' }, key: 'a', deliveries: 2 })
  expect(performance.now() - began).toBeGreaterThanOrEqual(290)
  await soon!.accept()
  const [late] = await receive(other.open, 1)
  expect(late).toMatchObject({ message: { id: 'late' }, deliveries: 8 })
  expect(performance.now() - began).toBeGreaterThanOrEqual(2450)
  await late!.accept()
  expect(await leftIn(redis, stream, GROUP)).toBe(0)
  expect(await redis.ask('EXISTS', `{${stream}}:${GROUP}:due`)).toBe(0)
})

test('a consumer whose lease was over settles nothing of the next consumer', async () => {
  const stream = uniqueName()
  const one = await opened({ stream })
  await add(stream, ['a', 'b', 'c', 'd'])
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

test('what a consumer has left is delivered again after the lease, each once, however little room there is', async () => {
  const stream = uniqueName()
  const ids = Array.from({ length: 300 }, (_, n) => `m${n}`)
  await add(stream, ids)
  await redis.ask('XGROUP', 'CREATE', stream, GROUP, '0')
  await redis.ask('XREADGROUP', 'GROUP', GROUP, 'killed', 'COUNT', '300', 'STREAMS', stream, '>')
  const subjects = await Promise.all([5, 1].map((prefetch) => opened({ stream }, prefetch)))
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

test('a dead letter has the fields of its entry and the reason; a refused one is tried again', async () => {
  const stream = uniqueName()
  const deadLetterStream = uniqueName('dead')
  const { open } = await opened({ stream, deadLetterStream })
  const bytes = Buffer.from([0, 255, 10])
  const client = await publishingClient('ioredis', redis.address)
  await (client as { callBuffer(...args: unknown[]): Promise<unknown> }).callBuffer(
    ...[
      'XADD',
      stream,
      '*',
      'id',
      'a',
      'content-type',
      'application/octet-stream',
      'payload',
      bytes,
      'own',
      'x',
    ],
  )
  await redis.ask('SET', deadLetterStream, 'no stream')
  const [delivery] = await receive(open, 1)
  const reject = (): Promise<void> => delivery!.reject({ error: new Error('never\u0007'), deliveries: 5 })
  await expect(reject()).rejects.toMatchObject({
    code: 'TXBOX_RETRY_LATER',
    message: expect.stringContaining('WRONGTYPE'),
  })
  expect(delivery!.lost.aborted).toBe(false)
  await redis.ask('DEL', deadLetterStream)
  await reject()
  const [dead] = await new StreamLog(redis, deadLetterStream).take()
  expect([...dead!.fields.keys()]).toEqual([
    ...['id', 'content-type', 'payload', 'own', 'txbox-error', 'txbox-deliveries', 'txbox-source'],
  ])
  expect(dead!.fields.get('payload')).toEqual(bytes)
  expect(textOf(dead!, 'txbox-error')).toContain(String.raw`never\u0007`)
  expect(textOf(dead!, 'txbox-deliveries')).toBe('5')
  expect(textOf(dead!, 'txbox-source')).toBe(`redis ${stream} ${GROUP}`)
  expect(await leftIn(redis, stream, GROUP)).toBe(0)
})

test('entries that were deleted before they were handled are reported, and hold up nothing', async () => {
  const stream = uniqueName()
  const one = await opened({ stream })
  const ids = await add(stream, ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
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
  const other = await opened({ stream })
  await redis.ask('XDEL', stream, ids[6]!)
  const [last] = await add(stream, ['last'])
  expect(idsOf(await receive(other.open, 1))).toEqual(['last'])
  expect(other.warnings.join()).toContain(`${text}${ids[6]}.`)
  const pending = (await redis.ask('XPENDING', stream, GROUP)) as [number, string]
  expect(pending.slice(0, 2)).toEqual([1, last])
})

test('a group begins at the first entry, or behind the last one, or must exist', async () => {
  const [early, late, missing] = [uniqueName(), uniqueName(), uniqueName()]
  for (const stream of [early, late, missing]) await add(stream, ['before'])
  const subjects = [
    await opened({ stream: early }),
    await opened({ stream: late, declare: { from: 'latest' } }),
  ]
  for (const { stream } of subjects) await add(stream, ['after'])
  expect(idsOf(await receive(subjects[0]!.open, 2))).toEqual(['after', 'before'])
  expect(idsOf(await receive(subjects[1]!.open, 1))).toEqual(['after'])
  await expect(opened({ stream: missing, declare: false })).rejects.toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
    message: expect.stringContaining('NOGROUP'),
  })
})

test('a consumer leaves the group with nothing pending; a consumer with a name of its own stays', async () => {
  const stream = uniqueName()
  const [own, named] = [await opened({ stream }), await opened({ stream, consumer: 'billing-1' })]
  await add(stream, ['a', 'b', 'c', 'd'])
  const deliveries = [...(await receive(own.open, 2)), ...(await receive(named.open, 2))]
  expect(idsOf(deliveries)).toEqual(['a', 'b', 'c', 'd'])
  await own.open.close()
  await named.open.close()
  expect(await consumersOf(stream)).toEqual(['billing-1', 'txbox:returned'])
  const next = await opened({ stream })
  const again = await receive(next.open, 4)
  expect(idsOf(again)).toEqual(['a', 'b', 'c', 'd'])
  expect(again.map(({ deliveries: count }) => count)).toEqual([1, 1, 1, 1])
})

test('an accepted entry stays in its stream, or is deleted with deleteAccepted', async () => {
  for (const [deleteAccepted, length] of [
    [false, 3],
    [true, 0],
  ] as const) {
    const stream = uniqueName()
    const { open } = await opened({ stream, deleteAccepted })
    await add(stream, ['a', 'b', 'c'])
    const [a, b, c] = await receive(open, 3)
    await Promise.all([a!.accept(), b!.accept(), c!.reject({ error: undefined })])
    expect(await redis.ask('XLEN', stream)).toBe(length)
  }
})

test('an abort ends a read that waits at the server, and what comes later goes to another consumer at once', async () => {
  const stream = uniqueName()
  const [one, other] = [await opened({ stream, leaseMs: 60_000 }), await opened({ stream, leaseMs: 60_000 })]
  for (let round = 0; round < 10; round += 1) {
    const stop = new AbortController()
    const receiving = one.open.receive(5, { signal: stop.signal })
    await new Promise((resolve) => setTimeout(resolve, round * 3))
    const adding = add(stream, [`message ${round}`])
    stop.abort()
    expect(await receiving).toEqual([])
    await adding
    const [delivery] = await receive(other.open, 1)
    expect(delivery).toMatchObject({ message: { id: `message ${round}` }, deliveries: 1 })
    await delivery!.accept()
  }
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
  await add(stream, ['a'])
  await until(
    async () => handled.includes('a'),
    () => 'the first message is handled',
  )
  await redis.ask('FLUSHALL')
  await add(stream, ['b'])
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
  await add(stream, ['a'])
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
  const { open } = await opened({ stream })
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
