import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import type { NewMessage } from '@txbox/core'
import { Broker, Gate } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, publishIn, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onEachRootAtUsualIsolation, onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onEachRootAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('O1 committed messages are published, once if nothing fails; rolled back messages never are', async () => {
    const broker = new Broker()
    const subject = await RelayUnderTest.started(root, broker.publisher())
    const committed: string[] = []
    for (let round = 0; round < 10; round += 1) {
      const lost = await root.begin()
      await publishIn(root, lost, [
        ...messagesOf('a', 2),
        ...messagesOf('rolled back', 2),
        ...messagesOf(undefined, 2),
      ])
      committed.push(...(await publishAll(root, [...messagesOf('a', 2), ...messagesOf(undefined, 2)])))
      await lost.rollback()
    }
    await broker.received(committed.length)
    await subject.relay.drain()
    expect(broker.ids().sort()).toEqual(committed.sort())
    expect(await outbox.backlog()).toEqual([])
    expect(broker.violations).toEqual([])
  })
})

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)

  /** Nothing but the number of deliveries differs between the deliveries of one message. */
  function expectSameResends(broker: Broker, published: readonly string[]): void {
    expect(broker.firstIds().sort()).toEqual([...published].sort())
    const first = new Map<string, string>()
    for (const { message } of broker.log) {
      const { id, topic, type, key, contentType, headers, correlationId, createdAt } = message
      const bytes = Buffer.from(message.payload).toString('hex')
      const all = JSON.stringify({
        id,
        topic,
        type,
        key,
        contentType,
        headers,
        correlationId,
        createdAt,
        bytes,
      })
      expect(first.get(id) ?? all).toBe(all)
      first.set(id, all)
    }
  }

  const messages: NewMessage[] = Array.from({ length: 12 }, (_, n) => ({
    topic: 'test',
    key: n % 3 === 0 ? undefined : `k${n % 3}`,
    payload: randomBytes(50),
    headers: { n: String(n) },
    correlationId: `c${n}`,
  }))

  for (const ordering of ['none', 'per-key'] as const) {
    test(`O2 a publisher that has sent and then throws sends the same ids and bytes again (${ordering})`, async () => {
      const ids = await publishAll(root, messages)
      const broker = new Broker()
      const publisher = broker.publisher({
        ordering,
        respond: (call) => {
          const results = call.acceptAll()
          if (call.number <= 3) throw new Error('the answer was lost')
          return results
        },
      })
      const subject = new RelayUnderTest(root, publisher)
      await subject.relay.drain()
      expect(broker.ids().length).toBeGreaterThan(ids.length)
      expectSameResends(broker, ids)
      expect(new Set(broker.log.map(({ message }) => message.attempt))).toEqual(new Set([1]))
      expect(await outbox.backlog()).toEqual([])
    })
  }

  test('O2 a publisher that throws after it has sent a part sends the other messages later', async () => {
    const ids = await publishAll(root, messages)
    const broker = new Broker()
    const publisher = broker.publisher({
      ordering: 'per-key',
      respond: (call) => {
        if (call.number > 4) return call.acceptAll()
        call.accept(call.messages[0]!)
        throw new Error('the connection broke')
      },
    })
    const subject = new RelayUnderTest(root, publisher)
    await subject.relay.drain()
    expectSameResends(broker, ids)
    expect(await outbox.backlog()).toEqual([])
  })

  test('O2 if a relay never gets the result of a call, the next relay sends the same messages again', async () => {
    const ids = await publishAll(root, messages)
    const broker = new Broker()
    const gate = new Gate()
    const hanging = broker.publisher({
      owner: 'first',
      ordering: 'per-key',
      respond: async (call) => {
        const results = call.acceptAll()
        await gate.pass()
        return results
      },
    })
    const first = await RelayUnderTest.started(root, hanging)
    await gate.reached()
    await first.relay.stop({ timeoutMs: 50 })
    const before = await outbox.backlog()
    expect(before.length).toBe(ids.length)
    const second = new RelayUnderTest(root, broker.publisher({ owner: 'second', ordering: 'per-key' }))
    await second.relay.drain()
    gate.open()
    expect(broker.log.filter(({ owner }) => owner === 'second').length).toBe(ids.length)
    expectSameResends(broker, ids)
    expect(await outbox.backlog()).toEqual([])
  })

  test('O1 connections that break between publishing and settling lose nothing', async () => {
    const ids = await publishAll(root, messages)
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: async (call) => {
        const results = call.acceptAll()
        if (call.number <= 3) await outbox.cutConnections()
        return results
      },
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await broker.received(ids.length)
    await subject.relay.drain()
    expectSameResends(broker, ids)
    expect(await outbox.backlog()).toEqual([])
  })
})
