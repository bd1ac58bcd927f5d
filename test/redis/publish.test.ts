import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isTxboxError, redisPublisher, type PublishResult, type Publisher } from '@txbox/redis'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { RedisUnderTest, clientsOfTier, sleep, useRedis } from './redis-under-test.ts'
import {
  idOf,
  StreamLog,
  connected,
  messageOf,
  publish,
  publisherOf,
  publishingClient,
  urlAt,
} from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()
const ALL = ['url', ...clientsOfTier('ioredis')] as const

async function publisherBy(how: (typeof ALL)[number], server = redis): Promise<Publisher> {
  const limits = { confirmTimeoutMs: 1000 }
  return how === 'url'
    ? publisherOf({ url: urlAt(server.address), ...limits })
    : publisherOf({ client: await publishingClient(how, server.address), ...limits })
}

/** The error of a call that must throw an outage. */
async function outageOf(publishing: Promise<unknown>): Promise<Error> {
  const error: unknown = await publishing.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(isTxboxError(error)).toBe(true)
  expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE', retryable: true })
  return error as Error
}

function reasonOf(result: PublishResult | undefined): string {
  return result?.status === 'rejected' ? String(result.error) : ''
}

describe.for(ALL)('%s', (how) => {
  test('a server without memory, and one that refuses writes, make the call throw the reason, without the payload', async () => {
    const publisher = await publisherBy(how)
    const topic = uniqueName()
    const messages = [messageOf({ topic, payload: 'hidden-word' })]
    for (const [setting, value, usual, word] of [
      ['maxmemory', '1', '0', 'OOM'],
      ['min-replicas-to-write', '1', '0', 'NOREPLICAS'],
    ] as const) {
      await redis.ask('CONFIG', 'SET', setting, value)
      const error = await outageOf(publish(publisher, messages))
      await redis.ask('CONFIG', 'SET', setting, usual)
      expect(error.message).toContain(word)
      expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('hidden-word')
      expect(error.cause).toBeUndefined()
    }
    expect(await publish(publisher, messages)).toEqual([{ status: 'accepted' }])
    expect(await new StreamLog(redis, topic).ids()).toEqual([messages[0]!.id])
  })

  test('a replica makes the call throw, and a primary works again', async () => {
    const publisher = await publisherBy(how)
    const messages = [messageOf({ topic: uniqueName() })]
    expect(await publish(publisher, messages)).toEqual([{ status: 'accepted' }])
    await redis.ask('REPLICAOF', '127.0.0.1', '1')
    onTestFinished(async () => void (await redis.ask('REPLICAOF', 'NO', 'ONE')))
    const error = await outageOf(publish(publisher, messages))
    expect(error.message).toMatch(/READONLY|MASTERDOWN|replica/)
    await expect(publisher.check!({ signal: new AbortController().signal })).rejects.toThrow(/replica/)
    await redis.ask('REPLICAOF', 'NO', 'ONE')
    expect(await publish(publisher, messages)).toEqual([{ status: 'accepted' }])
  })

  test('a stream that the user may not write to rejects its messages only', async () => {
    const allowed = uniqueName('allowed')
    await redis.ask('ACL', 'SETUSER', 'default', 'resetkeys', '~allowed-*')
    onTestFinished(async () => void (await redis.ask('ACL', 'SETUSER', 'default', '~*')))
    const publisher = await publisherBy(how)
    const messages = [messageOf({ topic: uniqueName('forbidden') }), messageOf({ topic: allowed })]
    const [forbidden, accepted] = await publish(publisher, messages)
    expect(accepted).toEqual({ status: 'accepted' })
    expect(forbidden).toMatchObject({ status: 'rejected', retryable: true })
    expect(forbidden).not.toHaveProperty('counted')
    expect(reasonOf(forbidden)).toContain('NOPERM')
  })

  test('a key that holds no stream any more counts no attempt; one that never did counts', async () => {
    const publisher = await publisherBy(how)
    const [topic, wrong] = [uniqueName(), uniqueName()]
    await publish(publisher, [messageOf({ topic })])
    for (const key of [topic, wrong]) await redis.ask('SET', key, 'no stream')
    const [gone, never] = await publish(publisher, [messageOf({ topic }), messageOf({ topic: wrong })])
    expect(gone).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(never).toMatchObject({ status: 'rejected', retryable: true })
    expect(never).not.toHaveProperty('counted')
  })

  test('a stream whose ids are used up waits, and others go on', async () => {
    const publisher = await publisherBy(how)
    const [full, other] = [uniqueName(), uniqueName()]
    await redis.ask('XADD', full, '18446744073709551615-18446744073709551615', 'id', 'last')
    const results = await publish(publisher, [messageOf({ topic: full }), messageOf({ topic: other })])
    expect(results[0]).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(results[1]).toEqual({ status: 'accepted' })
  })

  test('a server that is stopped for longer than the time limit makes the call throw, and works when it goes on', async () => {
    const server = new RedisUnderTest()
    await server.start()
    onTestFinished(() => server.stop())
    const publisher = await publisherBy(how, server)
    const topic = uniqueName()
    const messages = Array.from({ length: 50 }, () => messageOf({ topic }))
    await publish(publisher, messages.slice(0, 1))
    server.signal('SIGSTOP')
    const error = await outageOf(publish(publisher, messages))
    server.signal('SIGCONT')
    expect(error.message).toMatch(/did not answer within/)
    expect(await publish(publisher, messages)).toEqual(messages.map(() => ({ status: 'accepted' })))
    const arrived = new Set(await new StreamLog(server, topic).ids())
    expect(arrived).toEqual(new Set(messages.map(({ id }) => id)))
  })

  test('after a call that was thrown out, nothing is sent later but what was in flight', async () => {
    const network = await UnreliableNetwork.to(redis.address)
    onTestFinished(() => network.close())
    const limits = { confirmTimeoutMs: 300 }
    const client = how === 'url' ? undefined : await publishingClient(how, network.address)
    const publisher = publisherOf(
      client === undefined ? { url: urlAt(network.address), ...limits } : { client, ...limits },
    )
    const topic = uniqueName()
    const log = new StreamLog(redis, topic)
    await publish(publisher, [messageOf({ topic })])
    await network.down()
    for (let n = 0; n < 5; n += 1) await outageOf(publish(publisher, [messageOf({ topic })]))
    await log.take()
    await network.up()
    if (client !== undefined) await connected(client)
    await sleep(300)
    expect(await log.ids()).toEqual([])
  })
})

test('a wrong password, a missing user and a database that is not there make check throw, and say why', async () => {
  const signal = new AbortController().signal
  await redis.ask('ACL', 'SETUSER', 'limited', 'on', '>another-word')
  for (const [login, path, reason] of [
    ['limited:hidden-word@', '', /WRONGPASS/],
    ['nobody:hidden-word@', '', /WRONGPASS/],
    ['', '/99', /DB index is out of range/],
  ] as const) {
    const error = await outageOf(publisherOf({ url: urlAt(redis.address, login) + path }).check!({ signal }))
    expect(error.message).toMatch(reason)
    expect(error.message).not.toContain('hidden-word')
  }
  await publisherOf({ url: urlAt(redis.address) }).check!({ signal })
})

test('without node-redis, a URL makes the call throw the line that installs it', async () => {
  const program = path.join(import.meta.dirname, 'programs', 'without-client.mjs')
  const child = fork(program, [], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const [text] = (await once(child, 'message')) as [string]
  expect(text).toContain('npm install redis')
  expect(text).toContain('TXBOX_BROKER_UNAVAILABLE')
})

test('waitReplicas accepts what enough replicas have, and throws otherwise', async () => {
  const replica = new RedisUnderTest()
  await replica.start()
  onTestFinished(() => replica.stop())
  const topic = uniqueName()
  const options = { url: urlAt(redis.address), waitReplicas: 1, confirmTimeoutMs: 500 }
  const messages = Array.from({ length: 30 }, (_, n) => messageOf({ topic, key: `key ${n % 3}` }))
  const error = await outageOf(publish(publisherOf(options), messages))
  expect(error.message).toContain("0 replicas have the messages after 400 ms; 'waitReplicas' is 1")
  // Otherwise the primary waits for further replicas for 5 s.
  await redis.ask('CONFIG', 'SET', 'repl-diskless-sync-delay', '0')
  await replica.ask('REPLICAOF', '127.0.0.1', String(redis.address.port))
  const publisher = publisherOf({ ...options, confirmTimeoutMs: 10_000 })
  expect(await publish(publisher, messages)).toEqual(messages.map(() => ({ status: 'accepted' })))
  const copied = await new StreamLog(replica, topic).read()
  expect(new Set(copied.map(idOf))).toEqual(new Set(messages.map(({ id }) => id)))
})

test('maxLength trims the stream, and stream maps a topic', async () => {
  const stream = uniqueName()
  const publisher = publisherOf({
    url: urlAt(redis.address),
    maxLength: 100,
    stream: ({ topic }) => topic + stream,
  })
  const messages = Array.from({ length: 1000 }, () => messageOf({ topic: 'to-' }))
  expect((await publish(publisher, messages)).every(({ status }) => status === 'accepted')).toBe(true)
  const length = Number(await redis.ask('XLEN', `to-${stream}`))
  expect(length).toBeGreaterThanOrEqual(100)
  expect(length).toBeLessThan(400)
})

test('a function stream that fails rejects its message for now', async () => {
  const publisher = redisPublisher({
    url: urlAt(redis.address),
    stream: ({ topic }) => {
      if (topic === 'none') throw new Error('no stream for it')
      return topic
    },
  })
  onTestFinished(() => publisher.close?.())
  const [bad, good] = await publish(publisher, [
    messageOf({ topic: 'none' }),
    messageOf({ topic: uniqueName() }),
  ])
  expect(bad).toMatchObject({ status: 'rejected', retryable: true })
  expect(reasonOf(bad)).toContain('no stream for it')
  expect(good).toEqual({ status: 'accepted' })
})
