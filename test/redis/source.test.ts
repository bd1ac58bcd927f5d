import { expect, test } from 'vitest'
import type { Delivery } from '@txbox/consumer'
import { GROUP, add, idsOf, opened, receive } from './group-under-test.ts'
import { useRedis } from './redis-under-test.ts'
import { StreamLog, leftIn, publishingClient, textOf } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()

const consumersOf = async (stream: string): Promise<string[]> => {
  const consumers = (await redis.ask('XINFO', 'CONSUMERS', stream, GROUP)) as string[][]
  return consumers.map((about) => String(about[1]))
}

test('a message that is postponed is delivered again when it is due, with its count, from whichever consumer', async () => {
  const stream = uniqueName()
  const [one, other] = [await opened(redis, { stream }), await opened(redis, { stream })]
  await add(redis, stream, ['late', 'soon'], 'key', 'a')
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

test('a dead letter has the fields of its entry and the reason; a refused one is tried again', async () => {
  const stream = uniqueName()
  const deadLetterStream = uniqueName('dead')
  const { open } = await opened(redis, { stream, deadLetterStream })
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

test('a group begins at the first entry, or behind the last one, or must exist', async () => {
  const [early, late, missing] = [uniqueName(), uniqueName(), uniqueName()]
  for (const stream of [early, late, missing]) await add(redis, stream, ['before'])
  const subjects = [
    await opened(redis, { stream: early }),
    await opened(redis, { stream: late, declare: { from: 'latest' } }),
  ]
  for (const { stream } of subjects) await add(redis, stream, ['after'])
  expect(idsOf(await receive(subjects[0]!.open, 2))).toEqual(['after', 'before'])
  expect(idsOf(await receive(subjects[1]!.open, 1))).toEqual(['after'])
  await expect(opened(redis, { stream: missing, declare: false })).rejects.toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
    message: expect.stringContaining('NOGROUP'),
  })
})

test('a consumer leaves the group with nothing pending; a consumer with a name of its own stays', async () => {
  const stream = uniqueName()
  const [own, named] = [
    await opened(redis, { stream }),
    await opened(redis, { stream, consumer: 'billing-1' }),
  ]
  await add(redis, stream, ['a', 'b', 'c', 'd'])
  const deliveries = [...(await receive(own.open, 2)), ...(await receive(named.open, 2))]
  expect(idsOf(deliveries)).toEqual(['a', 'b', 'c', 'd'])
  await own.open.close()
  await named.open.close()
  expect(await consumersOf(stream)).toEqual(['billing-1', 'txbox:returned'])
  const next = await opened(redis, { stream })
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
    const { open } = await opened(redis, { stream, deleteAccepted })
    await add(redis, stream, ['a', 'b', 'c'])
    const [a, b, c] = await receive(open, 3)
    await Promise.all([a!.accept(), b!.accept(), c!.reject({ error: undefined })])
    expect(await redis.ask('XLEN', stream)).toBe(length)
  }
})

test('an abort ends a read that waits at the server, and what comes later goes to another consumer at once', async () => {
  const stream = uniqueName()
  const [one, other] = [
    await opened(redis, { stream, leaseMs: 60_000 }),
    await opened(redis, { stream, leaseMs: 60_000 }),
  ]
  for (let round = 0; round < 10; round += 1) {
    const stop = new AbortController()
    const receiving = one.open.receive(5, { signal: stop.signal })
    await new Promise((resolve) => setTimeout(resolve, round * 3))
    const adding = add(redis, stream, [`message ${round}`])
    stop.abort()
    expect(await receiving).toEqual([])
    await adding
    const [delivery] = await receive(other.open, 1)
    expect(delivery).toMatchObject({ message: { id: `message ${round}` }, deliveries: 1 })
    await delivery!.accept()
  }
})
