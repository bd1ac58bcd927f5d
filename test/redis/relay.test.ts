import { describe, expect, onTestFinished, test } from 'vitest'
import { createInbox, isSettled } from '@txbox/inbox'
import { fromRedis } from '@txbox/redis'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { cuttingPublisher } from '../support/subjects/cutting-publisher.ts'
import { RelayUnderTest, publishAll } from '../support/subjects/relay-under-test.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { clientsOfTier, useRedis } from './redis-under-test.ts'
import {
  StreamLog,
  idOf,
  publisherOf,
  publishingClient,
  urlAt,
  wrongKey,
  type StoredEntry,
} from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const redis = useRedis()
const [KEYS, EACH] = [10, 40]

async function network(): Promise<UnreliableNetwork> {
  const between = await UnreliableNetwork.to(redis.address)
  onTestFinished(() => between.close())
  return between
}

/** The numbers of each key, in the order of the first copies. */
function numbersByKey(entries: readonly StoredEntry[]): Record<string, number[]> {
  const seen = new Set<string>()
  const numbers: Record<string, number[]> = {}
  for (const entry of entries) {
    if (seen.has(idOf(entry))) continue
    seen.add(idOf(entry))
    const { key, n } = JSON.parse(String(entry.fields.get('payload'))) as { key: string; n: number }
    const own = (numbers[key] ??= [])
    own.push(n)
  }
  return numbers
}

describe.for(['url', ...clientsOfTier('node-redis')] as const)('%s', (how) => {
  test('O1 O2 O3 committed messages arrive in the order of their keys while connections break', async () => {
    const between = await network()
    const topic = uniqueName()
    const messages = Array.from({ length: KEYS * EACH }, (_, index) => {
      const key = `key ${index % KEYS}`
      return { topic, key, payload: { key, n: Math.floor(index / KEYS) } }
    })
    const ids = await publishAll(root, messages)
    const publisher =
      how === 'url'
        ? publisherOf({ url: urlAt(between.address) })
        : publisherOf({ client: await publishingClient(how, between.address) })
    const breaking = cuttingPublisher(publisher, () => between.cut())
    const subject = await RelayUnderTest.started(root, breaking, { batchSize: 20 })
    await outbox.settled()
    expect(subject.heard('parked')).toEqual([])
    expect(subject.heard('unavailable').length).toBeGreaterThan(0)
    const entries = await new StreamLog(redis, topic).take()
    expect(new Set(entries.map(idOf))).toEqual(new Set(ids))
    const ascending = Array.from({ length: EACH }, (_, n) => n)
    expect(numbersByKey(entries)).toEqual(
      Object.fromEntries(Array.from({ length: KEYS }, (_, key) => [`key ${key}`, ascending])),
    )
  })
})

test('I1 a message that is read from a stream twice has one effect', async () => {
  const topic = uniqueName()
  const [id] = await publishAll(root, [
    { topic, key: 'a', type: 'order.paid', headers: { tenant: 'north' }, payload: { name: 'paid' } },
  ])
  await RelayUnderTest.started(root, publisherOf({ url: urlAt(redis.address) }))
  await outbox.settled()
  const inbox = createInbox({ database: root.database, consumer: 'billing' })
  const [entry] = (await redis.askBytes('XRANGE', topic, '-', '+')) as [[Buffer, Buffer[]]]
  const message = fromRedis<{ name: string }>(entry)
  expect(message).toMatchObject({ id, type: 'order.paid', headers: { tenant: 'north' } })
  for (let delivery = 0; delivery < 2; delivery += 1) {
    const outcome = await inbox.run(message, (tx, { payload }) => target.effect(tx, payload.name))
    expect(isSettled(outcome)).toBe(true)
  }
  expect(await target.sql('select name from effects')).toEqual([{ name: 'paid' }])
})

test('O4 a key that holds no stream parks its messages with the reason, and their keys; other keys continue', async () => {
  const [wrong, topic] = [await wrongKey(redis), uniqueName()]
  const log = new StreamLog(redis, topic)
  const [lost, , ...rest] = await publishAll(root, [
    { topic: wrong, key: 'a', payload: { key: 'a', n: 1 } },
    { topic, key: 'a', payload: { key: 'a', n: 2 } },
    { topic, key: 'b', payload: { key: 'b', n: 1 } },
    { topic, payload: { key: 'none', n: 1 } },
  ])
  const subject = await RelayUnderTest.started(root, publisherOf({ url: urlAt(redis.address) }))
  await subject.hears('parked')
  const [parked] = subject.heard('parked')
  expect(parked).toMatchObject({ id: lost, topic: wrong, attempt: 1 })
  expect(String(parked?.error)).toContain(`stream '${wrong}' (WRONGTYPE`)
  expect((await log.ids()).toSorted()).toEqual(rest.toSorted())
  await redis.ask('DEL', wrong)
  await outbox.settled()
  expect(numbersByKey(await log.take())).toEqual({ a: [2] })
})

test('O6 an unavailable server costs no attempts, and is found again', async () => {
  const between = await network()
  const topic = uniqueName()
  await between.down()
  const messages = Array.from({ length: 9 }, (_, n) => ({ topic, key: `key ${n % 3}`, payload: { n } }))
  const ids = await publishAll(root, messages)
  const subject = await RelayUnderTest.started(root, publisherOf({ url: urlAt(between.address) }), {
    retry: { attempts: 1, delayMs: () => 1 },
  })
  await subject.hears('unavailable', 2)
  expect(String(subject.heard('unavailable')[0]?.error)).toContain('ECONNREFUSED')
  await between.up()
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect((await new StreamLog(redis, topic).ids()).toSorted()).toEqual(ids.toSorted())
})
