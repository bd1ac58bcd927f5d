import { expect, test } from 'vitest'
import { Broker, Gate, rejected, type Respond } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, outboxOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

/** Makes scheduled messages due earlier by this time, in place of a wait. */
async function bringForward(ms: number): Promise<void> {
  const by =
    target.engine === 'postgres' ? `interval '${ms} milliseconds'` : `interval ${ms * 1000} microsecond`
  const parked = target.outboxTable.replace(/outbox$/, 'parked')
  await outbox.sql(`update ${parked} set due_at = due_at - ${by} where due_at is not null`)
}

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('O11 a message with deliverAt is never published early, and blocks no other message', async () => {
    const broker = new Broker()
    const publishedAt = new Map<string, number>()
    const respond: Respond = (call) => {
      for (const { id } of call.messages) publishedAt.set(id, Date.now())
      return call.acceptAll()
    }
    await RelayUnderTest.started(root, broker.publisher({ respond }))
    const deliverAt = new Date(Date.now() + 3_600_000)
    const [late] = await publishAll(root, [
      { topic: 'test', key: 'k', payload: 1, deliverAt, headers: { a: 'b' }, type: 't', correlationId: 'c' },
    ])
    const others = await publishAll(root, messagesOf('k', 3))
    await broker.received(3)
    expect(broker.ids()).toEqual(others)
    const dueAt = Date.now() + 400
    await bringForward(deliverAt.getTime() - dueAt)
    await broker.received(4)
    // The database and this process use the clock of the same machine.
    expect(publishedAt.get(late!)).toBeGreaterThanOrEqual(dueAt)
    expect(broker.log[3]!.message).toMatchObject({
      ...{ id: late, key: 'k', headers: { a: 'b' }, type: 't', correlationId: 'c', attempt: 1 },
      createdAt: expect.any(Date) as Date,
    })
    await outbox.settled()
  })

  test('O1 a message scheduled in a rolled back transaction is never published; a message scheduled in the past is published at once', async () => {
    const broker = new Broker()
    const subject = await RelayUnderTest.started(root, broker.publisher())
    const rolledBack = await root.begin()
    await outboxOf(root).publish(rolledBack.tx, { topic: 'test', payload: 1, deliverAt: new Date(0) })
    await rolledBack.rollback()
    const open = await root.begin()
    const stored = await outboxOf(root).publish(open.tx, [
      { topic: 'test', key: 'k', payload: 1, deliverAt: new Date(0) },
      { topic: 'test', key: 'k', payload: 2 },
      { topic: 'test', payload: 3, deliverAt: new Date(Date.now() - 1000) },
    ])
    // Neither reading nor settling waits for it.
    await publishAll(root, messagesOf('k', 1))
    await broker.received(1)
    await open.commit()
    await broker.received(4)
    await subject.relay.drain()
    expect(new Set(broker.ids()).size).toBe(4)
    expect(broker.ids().slice(1).sort()).toEqual(stored.map(({ id }) => id).sort())
    await outbox.settled()
  })

  test('O4 O11 due messages get a turn while the outbox of their shard is never empty', async () => {
    const keys = keysOfOneShard(60)
    const ids = await publishAll(
      root,
      keys.map((key) => ({ topic: 'test', key, payload: 1 })),
    )
    const broker = new Broker()
    let scheduled: string | undefined
    const publisher = broker.publisher({
      respond: async (call) => {
        if (call.number === 5) {
          const message = { topic: 'test', key: keys[0]!, payload: 2, deliverAt: new Date(0) }
          scheduled = (await publishAll(root, [message]))[0]
        }
        // Of a broker that takes its time: all of them take longer than a relay waits before it looks.
        await new Promise((resolve) => setTimeout(resolve, 2))
        return call.acceptAll()
      },
    })
    await RelayUnderTest.started(root, publisher, { batchSize: 1 })
    await broker.received(61)
    expect(broker.ids().filter((id) => id !== scheduled)).toEqual(ids)
    expect(broker.ids().indexOf(scheduled!)).toBeLessThan(60)
  })

  test('O4 O11 a scheduled message that is refused is tried again, and still blocks no other message', async () => {
    const broker = new Broker()
    const [scheduled] = await publishAll(root, [
      { topic: 'test', key: 'k', payload: 1, deliverAt: new Date(0) },
    ])
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) =>
          message.id === scheduled && message.attempt < 3 ? rejected() : call.accept(message),
        ),
    })
    const subject = await RelayUnderTest.started(root, publisher, {
      retry: { attempts: 5, delayMs: () => 200 },
    })
    await subject.hears('parked')
    const others = await publishAll(root, messagesOf('k', 2))
    await broker.received(2)
    expect(broker.ids()).toEqual(others)
    await broker.received(3)
    await outbox.settled()
  })

  /** A publisher whose calls with this message wait at the gate. */
  const slowFor =
    (id: string, gate: Gate): Respond =>
    async (call) => {
      if (call.messages.some((message) => message.id === id)) await gate.pass()
      return call.acceptAll()
    }

  test('O11 a scheduled message that the publisher takes long for delays no other message of its key', async () => {
    const [broker, gate] = [new Broker(), new Gate()]
    const deliverAt = new Date(0)
    const [slow] = await publishAll(root, [{ topic: 'test', key: 'k', payload: 1, deliverAt }])
    await RelayUnderTest.started(root, broker.publisher({ respond: slowFor(slow!, gate) }))
    await gate.reached()
    const ordered = await publishAll(root, messagesOf('k', 3))
    await broker.received(3)
    expect(broker.ids()).toEqual(ordered)
    const [scheduled] = await publishAll(root, [{ topic: 'test', key: 'k', payload: 2, deliverAt }])
    await broker.received(4)
    gate.open()
    await outbox.settled()
    expect(broker.ids()).toEqual([...ordered, scheduled, slow])
  })

  test('O3 O11 an ordered message that the publisher takes long for delays its successors, but no scheduled message of its key', async () => {
    const [broker, gate] = [new Broker(), new Gate()]
    const [slow] = await publishAll(root, messagesOf('k', 1))
    await RelayUnderTest.started(root, broker.publisher({ respond: slowFor(slow!, gate) }))
    await gate.reached()
    const later = await publishAll(root, messagesOf('k', 2))
    const [scheduled] = await publishAll(root, [
      { topic: 'test', key: 'k', payload: 2, deliverAt: new Date(0) },
    ])
    await broker.received(1)
    expect(broker.ids()).toEqual([scheduled])
    gate.open()
    await outbox.settled()
    expect(broker.ids()).toEqual([scheduled, slow, ...later])
  })

  for (const ordering of ['none', 'per-key'] as const) {
    test(`O4 O11 scheduled messages and a retried message of their key that are due together delay each other in no call (ordering '${ordering}')`, async () => {
      const [broker, gate] = [new Broker(), new Gate()]
      const ordered = await publishAll(root, messagesOf('k', 2))
      const refuser = broker.publisher({
        ordering,
        respond: ({ messages }) =>
          messages.map((_, n) => (n === 0 ? rejected({ retryAfterMs: 300 }) : { status: 'skipped' })),
      })
      const first = await RelayUnderTest.started(root, refuser)
      await first.hears('parked')
      await first.relay.stop()
      const deliverAt = new Date(0)
      const scheduled = await publishAll(root, [
        { topic: 'test', key: 'k', payload: 2, deliverAt },
        { topic: 'test', key: 'k', payload: 3, deliverAt },
      ])
      const { dueAt } = first.heard('parked')[0]!
      await until(
        async () => Date.now() > dueAt.getTime() + 100,
        () => 'the refused message is due',
      )
      const calls = broker.calls.length
      const publisher = broker.publisher({ ordering, respond: slowFor(scheduled[0]!, gate) })
      await RelayUnderTest.started(root, publisher)
      await broker.received(3)
      await gate.reached()
      expect(broker.ids().filter((id) => ordered.includes(id))).toEqual(ordered)
      expect(broker.ids()).toContain(scheduled[1])
      gate.open()
      await outbox.settled()
      for (const { messages } of broker.calls.slice(calls)) {
        const ids = messages.map(({ id }) => id)
        if (ids.some((id) => scheduled.includes(id))) expect(ids.length).toBe(1)
      }
      expect(broker.ids().length).toBe(4)
    })
  }
})
