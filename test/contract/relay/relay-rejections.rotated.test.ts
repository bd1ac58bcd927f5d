import { expect, test } from 'vitest'
import type { RetryPolicy } from '@txbox/relay'
import { Broker, rejected, type Respond } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const ORDERINGS = ['none', 'per-key'] as const
const [bad, good, better] = keysOfOneShard(3) as [string, string, string]
const soon: RetryPolicy = { attempts: 1000, delayMs: () => 20 }
const muchLater: RetryPolicy = { attempts: 1000, delayMs: () => 600_000 }

/** Refuses the messages that `refuses` names; later messages of the same key in the call are skipped. */
function refusing(refuses: (id: string, attempt: number) => boolean): Respond {
  return (call) => {
    const refused = new Set<string>()
    return call.messages.map((message) => {
      if (message.key !== undefined && refused.has(message.key)) return { status: 'skipped' }
      if (!refuses(message.id, message.attempt)) return call.accept(message)
      if (message.key !== undefined) refused.add(message.key)
      return rejected({ error: new Error(`not ${message.id}`) })
    })
  }
}

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind)

  for (const ordering of ORDERINGS) {
    test(`O4 a refused message and its successors wait, other keys of its shard continue (${ordering})`, async () => {
      // More waiting messages than fit into several batches, before the messages that can be published.
      const blocked = await publishAll(root, messagesOf(bad, 50))
      const others = await publishAll(root, [...messagesOf(good, 10), ...messagesOf(better, 10)])
      const unkeyed = await publishAll(root, messagesOf(undefined, 32))
      const broker = new Broker()
      const publisher = broker.publisher({ ordering, respond: refusing((id) => id === blocked[0]) })
      const subject = await RelayUnderTest.started(root, publisher, { batchSize: 5, retry: muchLater })
      await broker.received(others.length + unkeyed.length)
      await publishAll(root, messagesOf(bad, 5, 51))
      const late = await publishAll(root, messagesOf(good, 1, 11))
      await subject.relay.drain()
      expect(broker.ids().sort()).toEqual([...others, ...unkeyed, ...late].sort())
      expect(await outbox.backlogSize()).toBe(55)
      // There is no hot loop: the message was tried once.
      const tried = broker.calls.flatMap(({ messages }) => messages.filter(({ key }) => key === bad))
      expect(tried.filter(({ id }) => id === blocked[0]).length).toBe(1)
      expect(subject.heard('parked').length).toBe(1)
      expect(subject.heard('error')).toEqual([])
      expect(subject.heard('unavailable')).toEqual([])
    })

    test(`O4 a refused message is accepted later, and its successors follow in order (${ordering})`, async () => {
      const ids = await publishAll(root, messagesOf(bad, 8))
      const others = await publishAll(root, messagesOf(good, 8))
      const broker = new Broker()
      // The first message is refused three times, the fourth once.
      const respond = refusing(
        (id, attempt) => (id === ids[0] && attempt <= 3) || (id === ids[3] && attempt === 1),
      )
      const subject = await RelayUnderTest.started(root, broker.publisher({ ordering, respond }), {
        retry: soon,
      })
      await broker.received(16)
      await subject.relay.drain()
      expect(broker.ids(bad)).toEqual(ids)
      expect(broker.ids(good)).toEqual(others)
      expect(broker.violations).toEqual([])
      expect(await outbox.backlogSize()).toBe(0)
      expect(subject.heard('parked').map(({ id, attempt }) => [id, attempt])).toEqual([
        [ids[0], 1],
        [ids[0], 2],
        [ids[0], 3],
        [ids[3], 1],
      ])
      // A message that was skipped, or waited, has not been tried.
      const attempts = broker.log.flatMap(({ message }) => (message.key === bad ? [message.attempt] : []))
      expect(attempts).toEqual([4, 1, 1, 2, 1, 1, 1, 1])
    })
  }

  test("O4 the event 'parked' contains the message, the reason, the attempt and the time of the next attempt", async () => {
    const [id] = await publishAll(root, messagesOf(bad, 1))
    const broker = new Broker()
    const attempts: number[] = []
    const retry: RetryPolicy = {
      attempts: 10,
      delayMs: (attempt) => {
        attempts.push(attempt)
        return attempt * 40
      },
    }
    const respond = refusing((_, attempt) => attempt <= 3)
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond }), { retry })
    await broker.received(1)
    const parked = subject.heard('parked')
    expect(parked).toMatchObject([1, 2, 3].map((attempt) => ({ id, topic: 'test', key: bad, attempt })))
    expect(parked.map(({ error }) => String(error))).toEqual(
      Array.from({ length: 3 }, () => `Error: not ${id}`),
    )
    expect(parked.map(({ dueAt }) => dueAt instanceof Date)).toEqual([true, true, true])
    expect(attempts).toEqual([1, 2, 3])
    const tries = broker.calls.map(({ startedAt }) => startedAt)
    for (const [n, pauseMs] of [40, 80, 120].entries()) {
      expect(tries[n + 1]! - tries[n]!).toBeGreaterThanOrEqual(pauseMs - 1)
    }
  })

  test('O4 retryAfterMs of the publisher determines when the next attempt is due', async () => {
    await publishAll(root, messagesOf(bad, 2))
    const broker = new Broker()
    const respond: Respond = (call) =>
      call.messages.map((message) =>
        message.attempt === 1 && message.json<{ n: number }>().n === 1
          ? rejected({ retryAfterMs: 300 })
          : call.accept(message),
      )
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond }), { retry: soon })
    await subject.hears('parked')
    const leftMs = subject.heard('parked')[0]!.dueAt.getTime() - Date.now()
    expect(leftMs).toBeGreaterThan(150)
    expect(leftMs).toBeLessThanOrEqual(300)
    await broker.received(2)
    expect(broker.calls[1]!.startedAt - broker.calls[0]!.startedAt).toBeGreaterThanOrEqual(299)
  })

  test('O4 the next attempt is due within a day, however long retryAfterMs is, and accepted messages are settled', async () => {
    const [first] = await publishAll(root, messagesOf(bad, 1))
    await publishAll(root, messagesOf(good, 1))
    const respond: Respond = (call) =>
      call.messages.map((message) =>
        message.id === first ? rejected({ retryAfterMs: Infinity }) : call.accept(message),
      )
    const subject = await RelayUnderTest.started(root, new Broker().publisher({ respond }))
    await subject.hears('parked')
    await subject.hears('published')
    expect(subject.heard('parked')[0]!.dueAt.getTime()).toBeLessThanOrEqual(Date.now() + 86_400_000)
    expect((await outbox.parked()).map(({ id, due }) => [id, due])).toEqual([[first, true]])
    expect(await outbox.backlog()).toEqual([])
  })

  test('O4 N1 a retry policy that throws is reported with the message, which waits for the default pause, and other messages are settled', async () => {
    const [id] = await publishAll(root, messagesOf(bad, 1))
    await publishAll(root, messagesOf(good, 1))
    const broken = new Error('broken policy')
    const delayMs = (): number => {
      throw broken
    }
    const publisher = new Broker().publisher({ respond: refusing((refused) => refused === id) })
    const subject = await RelayUnderTest.started(root, publisher, { retry: { attempts: 3, delayMs } })
    await subject.hears('parked')
    await subject.hears('published')
    const waitMs = subject.heard('parked')[0]!.dueAt.getTime() - Date.now()
    expect(waitMs).toBeGreaterThan(0)
    expect(waitMs).toBeLessThanOrEqual(1000)
    expect(subject.heard('error')[0]).toMatchObject({ id, topic: 'test', key: bad, error: { cause: broken } })
    expect(await outbox.backlog()).toEqual([])
  })

  test('O4 a refused message without a key blocks no other message', async () => {
    const ids = await publishAll(root, messagesOf(undefined, 64))
    const broker = new Broker()
    const respond = refusing((id, attempt) => id === ids[0] && attempt === 1)
    const subject = await RelayUnderTest.started(root, broker.publisher({ respond }), {
      batchSize: 2,
      retry: soon,
    })
    await broker.received(64)
    await subject.relay.drain()
    expect(broker.ids().sort()).toEqual([...ids].sort())
    expect(subject.heard('parked')).toMatchObject([{ id: ids[0], attempt: 1 }])
    expect(subject.heard('parked')[0]).not.toHaveProperty('key', expect.anything())
  })

  test('O4 many keys are blocked at once, and the others continue', async () => {
    const keys = Array.from({ length: 200 }, (_, n) => `key-${n}`)
    await publishAll(
      root,
      keys.flatMap((key) => messagesOf(key, 2)),
    )
    const broker = new Broker()
    const blocked = new Set(keys.filter((_, n) => n % 2 === 0))
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) => (blocked.has(message.key!) ? rejected() : call.accept(message))),
    })
    const subject = await RelayUnderTest.started(root, publisher, { batchSize: 10, retry: soon })
    await broker.received(200)
    expect(new Set(broker.log.map(({ message }) => message.key))).toEqual(
      new Set(keys.filter((key) => !blocked.has(key))),
    )
    blocked.clear()
    await broker.received(400)
    for (const key of keys) {
      expect(
        broker.log.flatMap(({ message }) => (message.key === key ? [message.json<{ n: number }>().n] : [])),
      ).toEqual([1, 2])
    }
    await subject.relay.drain()
    expect(await outbox.backlogSize()).toBe(0)
  })

  test('O4 a refused message that the next relay takes over keeps its pause, and is published before its successors', async () => {
    const ids = await publishAll(root, messagesOf(bad, 5))
    const broker = new Broker()
    const refuse = broker.publisher({ owner: 'first', respond: refusing(() => true) })
    const retry: RetryPolicy = { attempts: 10, delayMs: () => 500 }
    const first = await RelayUnderTest.started(root, refuse, { retry })
    await first.hears('parked')
    await first.relay.stop()
    await publishAll(root, messagesOf(bad, 1, 6)).then((late) => ids.push(...late))
    await RelayUnderTest.started(root, broker.publisher({ owner: 'second' }))
    await broker.received(6)
    expect(broker.ids(bad)).toEqual(ids)
    expect(broker.log[0]!.message.attempt).toBe(2)
    expect(broker.log[0]!.at - broker.calls[0]!.startedAt).toBeGreaterThanOrEqual(499)
    await outbox.settled()
  })
})
