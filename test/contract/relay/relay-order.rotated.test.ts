import { expect, test } from 'vitest'
import type { NewMessage } from '@txbox/core'
import { Broker } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  outboxOf,
  publishAll,
  publishIn,
  RelayUnderTest,
} from '../../support/subjects/relay-under-test.ts'
import { onMainRoot, onEachRootAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const ORDERINGS = ['none', 'per-key'] as const

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)

  for (const ordering of ORDERINGS) {
    for (const batchSize of [1, 3, 1000]) {
      test(`O3 messages of one transaction are published in the order of the calls (${ordering}, batches of ${batchSize})`, async () => {
        const broker = new Broker()
        const transaction = await root.begin()
        const sent: NewMessage[] = []
        const [k1, k2, k3] = keysOfOneShard(3) as [string, string, string]
        for (let round = 0; round < 5; round += 1) {
          // Single calls and arrays, keys mixed, of one shard and of others.
          const single = [...messagesOf(k1, 2, round * 10), ...messagesOf('other', 1, round * 10)]
          const array = interleaved([k2, k1, k3, 'other', k1], round * 10 + 5)
          await publishIn(root, transaction, single)
          await outboxOf(root).publish(transaction.tx, array)
          sent.push(...single, ...array)
        }
        await transaction.commit()
        const subject = new RelayUnderTest(root, broker.publisher({ ordering }), { batchSize })
        await subject.relay.drain()
        for (const key of [k1, k2, k3, 'other'])
          expect(numbers(broker, key), key).toEqual(numbersOf(sent, key))
        expect(broker.violations).toEqual([])
        expect(Math.max(...broker.calls.map(({ messages }) => messages.length))).toBeLessThanOrEqual(
          batchSize,
        )
      })
    }
  }

  test("O3 ordering 'none' never gets two messages of one key in one call, and gets messages without a key together", async () => {
    await publishAll(root, [...messagesOf('a', 20), ...messagesOf(undefined, 160), ...messagesOf('b', 20)])
    const broker = new Broker()
    await new RelayUnderTest(root, broker.publisher({ ordering: 'none' })).relay.drain()
    expect(broker.violations).toEqual([])
    expect(broker.firstIds().length).toBe(200)
    expect(Math.max(...broker.calls.map(({ messages }) => messages.length))).toBeGreaterThanOrEqual(10)
  })

  test("O3 ordering 'per-key' gets the messages of one key together, in order", async () => {
    const ids = await publishAll(root, messagesOf('a', 100))
    const broker = new Broker()
    await new RelayUnderTest(root, broker.publisher({ ordering: 'per-key' })).relay.drain()
    expect(broker.calls.map(({ messages }) => messages.map(({ id }) => id))).toEqual([ids])
  })

  test('O3 O13 a batch has no more bytes than batchBytes; a larger message is published alone, in its place', async () => {
    const sizes = [1000, 1000, 1000, 1000, 1000, 9000, 10, 10, 4090, 10, 3000, 2000]
    const transaction = await root.begin()
    const stored = await outboxOf(root).publish(
      transaction.tx,
      sizes.map((size) => ({ topic: 't', key: 'a', payload: new Uint8Array(size) })),
    )
    await transaction.commit()
    const broker = new Broker()
    await new RelayUnderTest(root, broker.publisher({ ordering: 'per-key' }), {
      batchBytes: 4096,
    }).relay.drain()
    expect(broker.ids()).toEqual(stored.map(({ id }) => id))
    const batches = broker.calls.map(({ messages }) => messages.map(({ payload }) => payload.byteLength))
    for (const batch of batches) {
      if (batch.length > 1) expect(batch.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(4096)
    }
    expect(batches).toContainEqual([9000])
    expect(batches.length).toBeLessThan(sizes.length)
  })

  test('O3 messages that are stored while others of their key are in flight follow them', async () => {
    const broker = new Broker()
    const ids = await publishAll(root, messagesOf('a', 3))
    const publisher = broker.publisher({
      respond: async (call) => {
        if (call.number <= 20) ids.push(...(await publishAll(root, messagesOf('a', 1, call.number + 3))))
        return call.acceptAll()
      },
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await broker.received(23)
    await subject.relay.drain()
    expect(broker.ids('a')).toEqual(ids)
    expect(broker.violations).toEqual([])
  })
})

onEachRootAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: 8 })

  test('O3 a transaction that commits late, with lower numbers, is not skipped', async () => {
    const broker = new Broker()
    const [k1, k2] = keysOfOneShard(2) as [string, string]
    const subject = await RelayUnderTest.started(root, broker.publisher())
    const late = await root.begin()
    const first = await publishIn(root, late, messagesOf(k1, 2))
    const early = await publishAll(root, messagesOf(k2, 2))
    // Both have the same key, and neither has waited for the other: they have no order, but both must be published.
    const concurrent = await publishAll(root, messagesOf(k1, 2, 100))
    await broker.received(4)
    expect(new Set(broker.ids())).toEqual(new Set([...early, ...concurrent]))
    const then = await publishIn(root, late, messagesOf(k1, 1, 3))
    await late.commit()
    await broker.received(7)
    await subject.relay.drain()
    expect(broker.ids(k2)).toEqual(early)
    expect(broker.ids(k1)).toEqual([...concurrent, ...first, ...then])
    expect(await outbox.backlog()).toEqual([])
  })

  test('O3 a transaction that commits, with lower numbers, while others are being published is not skipped', async () => {
    const broker = new Broker()
    const [k1, k2] = keysOfOneShard(2) as [string, string]
    const late = await root.begin()
    const first = await publishIn(root, late, messagesOf(k1, 3))
    const early = await publishAll(root, messagesOf(k2, 3))
    const publisher = broker.publisher({
      ordering: 'per-key',
      respond: async (call) => {
        if (call.number === 1) await late.commit()
        return call.acceptAll()
      },
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await broker.received(6)
    await subject.relay.drain()
    expect(broker.ids()).toEqual([...early, ...first])
    expect(await outbox.backlog()).toEqual([])
  })

  test('O3 transactions that overlap in many ways: none of them is skipped', async () => {
    const broker = new Broker()
    const keys = keysOfOneShard(4)
    const subject = await RelayUnderTest.started(root, broker.publisher(), { batchSize: 2 })
    const published = new Map<string, string[]>(keys.map((key) => [key, []]))
    // Each key always has one open transaction; the transactions begin, write and commit in turn.
    const open = await Promise.all(keys.map(() => root.begin()))
    for (let step = 0; step < 40; step += 1) {
      const turn = (step * 7) % keys.length
      const key = keys[turn]!
      published.get(key)!.push(...(await publishIn(root, open[turn]!, messagesOf(key, 1, step))))
      if (step % 3 !== 0) continue
      await open[turn]!.commit()
      open[turn] = await root.begin()
    }
    await Promise.all(open.map((transaction) => transaction.commit()))
    await broker.received(40)
    await subject.relay.drain()
    for (const key of keys) expect(broker.ids(key)).toEqual(published.get(key))
    expect(await outbox.backlog()).toEqual([])
  })
})

function interleaved(keys: readonly string[], from: number): NewMessage[] {
  return keys.map((key, n) => ({ topic: 'test', key, payload: { key, n: from + n } }))
}

function numbers(broker: Broker, key: string): number[] {
  return broker.log.flatMap(({ message }) => (message.key === key ? [message.json<{ n: number }>().n] : []))
}

function numbersOf(messages: readonly NewMessage[], key: string): number[] {
  return messages.flatMap((message) => (message.key === key ? [(message.payload as { n: number }).n] : []))
}
