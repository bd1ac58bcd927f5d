import { expect, test } from 'vitest'
import { Broker, rejected } from '../support/broker.ts'
import { keysOfOneShard } from '../support/keys.ts'
import { useOutboxTarget } from '../support/outbox-target.ts'
import { messagesOf, outboxOf, publishAll, RelayUnderTest } from '../support/relay-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../support/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('O11 a message with deliverAt is never published early, and blocks no other message', async () => {
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher())
    const deliverAt = new Date(Date.now() + 700)
    const [late] = await publishAll(root, [
      { topic: 'test', key: 'k', payload: 1, deliverAt, headers: { a: 'b' }, type: 't', correlationId: 'c' },
    ])
    const others = await publishAll(root, messagesOf('k', 3))
    await broker.received(3)
    expect(broker.ids()).toEqual(others)
    await broker.received(4)
    // The database and this process use the clock of the same machine.
    expect(Date.now()).toBeGreaterThanOrEqual(deliverAt.getTime())
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
})
