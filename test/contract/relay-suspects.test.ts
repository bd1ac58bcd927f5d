import { expect, test } from 'vitest'
import { createDeadLetters } from '@txbox/relay'
import { Broker, Gate, type Respond } from '../support/broker.ts'
import { keysOfOneShard } from '../support/keys.ts'
import { useOutboxTarget } from '../support/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../support/relay-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../support/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [poisoned, neighbour] = keysOfOneShard(2) as [string, string]
const ATTEMPTS = 2

onEachKind(target, (kind) => {
  // On MySQL and MariaDB each relay keeps one of them for its leases.
  const root = useRoot(target, kind, { max: 12 })

  /** A relay that gets no answer for a call with this message, and stands there for ever: for the others it has died. */
  function stuckOn(id: string, gate: Gate): Respond {
    return async (call) => {
      if (call.messages.some((message) => message.id === id)) await gate.pass()
      return call.acceptAll()
    }
  }

  test('O9 after a crash each message is tried alone and counted; who crashes again and again is dead, and no other', async () => {
    const before = await publishAll(root, messagesOf(neighbour, 3))
    const [poison, ...after] = await publishAll(root, messagesOf(poisoned, 3))
    const others = await publishAll(root, [...messagesOf('x', 2), ...messagesOf('y', 2)])
    const options = { retry: { attempts: ATTEMPTS, delayMs: () => 1 }, leaseMs: 60_000 }
    const brokers: Broker[] = []
    for (let crashes = 0; crashes <= ATTEMPTS; crashes += 1) {
      const broker = new Broker()
      brokers.push(broker)
      const gate = new Gate()
      const publisher = broker.publisher({ owner: `relay-${crashes}`, respond: stuckOn(poison!, gate) })
      await RelayUnderTest.started(root, publisher, options)
      await gate.reached()
      const stuck = broker.calls.find(({ messages }) => messages.some(({ id }) => id === poison))!
      // The first one finds it in a batch, and counts nothing.
      if (crashes === 0) {
        expect(stuck.messages.length).toBeGreaterThan(1)
      } else {
        expect(stuck.messages.map(({ id, attempt }) => [id, attempt])).toEqual([[poison, crashes]])
      }
      await outbox.expireLeases()
    }
    const last = new Broker()
    const subject = await RelayUnderTest.started(root, last.publisher({ owner: 'last' }), options)
    await subject.hears('dead-lettered')
    await outbox.settled()
    expect(subject.heard('dead-lettered')).toMatchObject([{ id: poison, attempts: ATTEMPTS }])
    expect((await createDeadLetters({ database: root.database }).list()).map(({ id }) => id)).toEqual([
      poison,
    ])
    expect(last.ids(poisoned)).toEqual(after)
    const all = [...brokers, last].flatMap((broker) => broker.ids())
    expect(new Set(all)).toEqual(new Set([...before, ...after, ...others]))
  })

  test('O9 nothing else is under way while a suspect is tried, and it goes back to batches', async () => {
    await publishAll(
      root,
      ['a', 'b', 'c', 'd', 'e', 'f'].flatMap((key) => messagesOf(key, 3)),
    )
    // All shards look as if their owner had died.
    const first = await RelayUnderTest.started(
      root,
      new Broker().publisher({ respond: () => new Promise(() => {}) }),
      {
        leaseMs: 60_000,
      },
    )
    await first.hears('lease-acquired', 16)
    await outbox.expireLeases()
    const broker = new Broker()
    let active = 0
    let most = 0
    const publisher = broker.publisher({
      respond: async (call) => {
        active += 1
        most = Math.max(most, active)
        await new Promise((resolve) => setImmediate(resolve))
        active -= 1
        return call.acceptAll()
      },
    })
    await RelayUnderTest.started(root, publisher)
    await broker.received(18)
    await outbox.settled()
    expect(most).toBe(1)
    expect(broker.calls.map(({ messages }) => messages.length)).toEqual(Array.from({ length: 18 }, () => 1))
    for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const seen = broker.log.flatMap(({ message }) =>
        message.key === key ? [message.json<{ n: number }>().n] : [],
      )
      expect(seen).toEqual([1, 2, 3])
    }
    await publishAll(root, messagesOf(undefined, 64))
    await broker.received(18 + 64)
    expect(broker.calls.length).toBeLessThan(18 + 64)
  })

  /** Somebody has had all shards, and gave no sign of life any more. */
  async function afterCrash(): Promise<void> {
    const dead = await RelayUnderTest.started(
      root,
      new Broker().publisher({ respond: () => new Promise(() => {}) }),
      { leaseMs: 60_000 },
    )
    await dead.hears('lease-acquired', 16)
    await outbox.expireLeases()
  }

  test('O9 O6 a publisher that is down while suspects are tried costs them no attempts, and is not called in a hurry', async () => {
    await publishAll(root, [...messagesOf(poisoned, 2), ...messagesOf(neighbour, 2)])
    await afterCrash()
    const broker = new Broker()
    const failures = ATTEMPTS + 1
    const publisher = broker.publisher({
      respond: (call) => {
        if (call.number <= failures) throw new Error('down')
        return call.acceptAll()
      },
    })
    const subject = await RelayUnderTest.started(root, publisher, {
      retry: { attempts: ATTEMPTS, delayMs: () => 1 },
    })
    await broker.received(4)
    await outbox.settled()
    expect(broker.calls.map(({ messages }) => messages.map(({ attempt }) => attempt))).toEqual(
      Array.from({ length: failures + 4 }, () => [1]),
    )
    for (const n of Array.from({ length: failures }, (_, index) => index)) {
      expect(broker.calls[n + 1]!.startedAt - broker.calls[n]!.startedAt).toBeGreaterThanOrEqual(49)
    }
    expect(subject.heard('dead-lettered')).toEqual([])
  })

  test('O9 as many as a batch of the outbox and a batch that was due are tried alone, and no more', async () => {
    const keys = keysOfOneShard(8)
    const scheduled = keys.slice(0, 6).map((key) => ({ topic: 't', key, payload: 1, deliverAt: new Date(0) }))
    await publishAll(root, [...scheduled, ...keys.slice(6).map((key) => ({ topic: 't', key, payload: 2 }))])
    await afterCrash()
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher(), { batchSize: 2 })
    await broker.received(8)
    await outbox.settled()
    expect(broker.calls.map(({ messages }) => messages.length)).toEqual([1, 1, 1, 1, 2, 2])
  })

  test('O9 O10 stop waits for the suspect in flight, and tries no other', async () => {
    const ids = await publishAll(root, messagesOf(poisoned, 5))
    await afterCrash()
    const broker = new Broker()
    const gate = new Gate()
    const publisher = broker.publisher({
      respond: async (call) => {
        await gate.pass()
        return call.acceptAll()
      },
    })
    const subject = await RelayUnderTest.started(root, publisher)
    await gate.reached()
    const stopping = subject.relay.stop()
    gate.open()
    await stopping
    expect(broker.ids()).toEqual(ids.slice(0, 1))
    expect((await outbox.parked()).map(({ id }) => id)).toEqual(ids.slice(1))
  })
})
