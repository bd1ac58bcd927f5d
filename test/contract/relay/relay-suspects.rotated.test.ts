import { describe, expect, test } from 'vitest'
import { createDeadLetters } from '@txbox/relay'
import { Broker, Gate, holding, rejected, type Respond } from '../../support/worlds/broker.ts'
import { cutOffRelay } from '../../support/subjects/cut-off-relay.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, publishIn, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const [poisoned, neighbour] = keysOfOneShard(2) as [string, string]
const [elsewhere, otherSuspect] = keysOfOneShard(2, 7) as [string, string]
const prefix = target.engine === 'postgres' ? 'txbox.' : 'txbox_'
const ATTEMPTS = 2
const RETRY = { attempts: ATTEMPTS, delayMs: () => 1 }

describe('on one kind of root, because the tests of the store run on all kinds', () => {
  // On MySQL and MariaDB each relay keeps one connection for its leases.
  const root = useRoot(target, mainKind(target), { max: 14 })
  const die = (calls: number, options: { batchSize?: number } = {}): Promise<Broker> =>
    cutOffRelay(root, calls, options)

  /** A publisher that hangs in a call with this message: for other relays its relay has died. */
  function stuckOn(id: string, gate: Gate): Respond {
    return async (call) => {
      if (call.messages.some((message) => message.id === id)) await gate.pass()
      return call.acceptAll()
    }
  }

  test('O9 a message that was in flight at two deaths in a row is tried alone and counted, and only it finally becomes a dead letter', async () => {
    const before = await publishAll(root, messagesOf(neighbour, 3))
    const [poison, ...after] = await publishAll(root, messagesOf(poisoned, 3))
    const others = await publishAll(root, [...messagesOf('x', 2), ...messagesOf('y', 2)])
    const options = { retry: RETRY, leaseMs: 60_000 }
    const brokers: Broker[] = []
    for (let crashes = 0; crashes < ATTEMPTS + 2; crashes += 1) {
      const broker = new Broker()
      brokers.push(broker)
      const gate = new Gate()
      const publisher = broker.publisher({ owner: `relay-${crashes}`, respond: stuckOn(poison!, gate) })
      const subject = await RelayUnderTest.started(root, publisher, options)
      await gate.reached()
      const stuck = broker.calls.find(({ messages }) => messages.some(({ id }) => id === poison))!
      const tried = stuck.messages.map(({ id, attempt }) => [id, attempt])
      if (crashes === 0) expect(tried.length).toBeGreaterThan(1)
      if (crashes < 2) expect(tried).toContainEqual([poison, 1])
      else expect(tried).toEqual([[poison, crashes - 1]])
      await outbox.expireLeases()
      // It must not take a share of the shards again.
      await subject.relay.stop({ timeoutMs: 300 })
    }
    const last = new Broker()
    const subject = await RelayUnderTest.started(root, last.publisher({ owner: 'last' }), options)
    await subject.hears('dead-lettered')
    await outbox.settled()
    expect(subject.heard('dead-lettered')).toMatchObject([{ id: poison, attempts: ATTEMPTS }])
    const dead = await createDeadLetters({ database: root.database }).list()
    expect(dead.map(({ id }) => id)).toEqual([poison])
    expect(last.ids(poisoned)).toEqual(after)
    const all = [...brokers, last].flatMap((broker) => broker.ids())
    expect(new Set(all)).toEqual(new Set([...before, ...after, ...others]))
  })

  test('O9 O16 suspects go one at a time and in order, while other messages of their shard and other shards continue', async () => {
    const suspects = await publishAll(root, [...messagesOf(poisoned, 3), ...messagesOf(otherSuspect, 3)])
    await die(2)
    await die(2)
    const broker = new Broker()
    const gate = new Gate()
    let alone = 0
    let most = 0
    const publisher = broker.publisher({
      ordering: 'per-key',
      respond: async (call) => {
        const isSuspect = call.messages.some(({ id }) => suspects.includes(id))
        if (!isSuspect) return call.acceptAll()
        expect(call.messages.length).toBe(1)
        most = Math.max(most, (alone += 1))
        await gate.pass()
        alone -= 1
        return call.acceptAll()
      },
    })
    await RelayUnderTest.started(root, publisher)
    await gate.reached()
    const innocent = await publishAll(root, [...messagesOf(neighbour, 5), ...messagesOf(elsewhere, 5)])
    await broker.received(10)
    expect(new Set(broker.ids())).toEqual(new Set(innocent))
    gate.open()
    await broker.received(16)
    await outbox.settled()
    expect(most).toBe(1)
    expect(broker.ids(poisoned)).toEqual(suspects.slice(0, 3))
    expect(broker.ids(otherSuspect)).toEqual(suspects.slice(3))
    // There are no suspects any more.
    const later = await publishAll(root, messagesOf(poisoned, 5))
    await broker.received(21)
    expect(broker.calls.at(-1)!.messages.map(({ id }) => id)).toEqual(later)
  })

  test('O9 O16 a suspect that was being tried at a death is tried again only after the suspects of all other shards', async () => {
    const keys = [0, 3, 5, 7, 11, 14].map((shard) => keysOfOneShard(1, shard)[0]!)
    const ids = await publishAll(
      root,
      keys.flatMap((key) => messagesOf(key, 1)),
    )
    await die(6)
    await die(6)
    const [call] = (await die(1)).calls
    const poison = call!.messages.map(({ id }) => id)
    expect(poison.length).toBe(1)
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await broker.received(6)
    await outbox.settled()
    expect(broker.calls.map(({ messages }) => messages.length)).toEqual([1, 1, 1, 1, 1, 1])
    expect(broker.ids().slice(0, 5).toSorted()).toEqual(ids.filter((id) => id !== poison[0]).toSorted())
    expect(broker.ids()[5]).toBe(poison[0])
  })

  test('O9 only messages that were in flight at both deaths are tried alone', async () => {
    const ids = await publishAll(root, messagesOf(poisoned, 7))
    await die(1, { batchSize: 2 })
    const second = await die(1, { batchSize: 2 })
    expect(second.calls[0]!.messages.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }), { batchSize: 5 })
    await broker.received(7)
    await outbox.settled()
    expect(broker.ids()).toEqual(ids)
    expect(broker.calls.map(({ messages }) => messages.length)).toEqual([1, 1, 5])
  })

  test('O4 O9 messages before a suspect of their key that were not in flight are published before the suspect', async () => {
    const ids = await publishAll(root, messagesOf(poisoned, 6))
    await die(1)
    await die(1)
    // As if the first two had waited for a parked message of their key while the next two were in flight.
    const rows = await outbox.sql(
      `select seq from ${prefix}outbox where id in (?, ?) order by seq`,
      ids.slice(2, 4),
    )
    const inFlight = JSON.stringify({ outbox: rows.map(({ seq }) => String(seq)) })
    await outbox.sql(`update ${prefix}leases set in_flight = ? where crashes >= 2`, [inFlight])
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await broker.received(6)
    await outbox.settled()
    expect(broker.ids()).toEqual(ids)
    const sizes = broker.calls.map(({ messages }) => messages.length)
    expect(sizes.slice(1, 3)).toEqual([1, 1])
  })

  test('O9 suspects are found behind more late commits than fit into a batch', async () => {
    const transaction = await root.begin()
    const late = await publishIn(root, transaction, messagesOf(neighbour, 7))
    const suspects = await publishAll(root, messagesOf(poisoned, 2))
    await die(1, { batchSize: 2 })
    await die(1, { batchSize: 2 })
    await transaction.commit()
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }), { batchSize: 2 })
    await broker.received(9)
    await outbox.settled()
    expect(broker.ids(neighbour)).toEqual(late)
    expect(broker.ids(poisoned)).toEqual(suspects)
    const sizes = broker.calls.map(({ messages }) => messages.map(({ key }) => key))
    expect(sizes.filter((keys) => keys.includes(poisoned))).toEqual([[poisoned], [poisoned]])
  })

  test('O4 O9 a suspect that is refused is tried again, and the suspects behind it follow in order', async () => {
    const ids = await publishAll(root, messagesOf(poisoned, 3))
    await die(1)
    await die(1)
    const broker = new Broker()
    let refusals = 0
    const publisher = broker.publisher({
      ordering: 'per-key',
      respond: (call) => {
        if (call.messages[0]!.id !== ids[0] || refusals++ > 0) return call.acceptAll()
        return call.messages.map((_, n) => (n === 0 ? rejected() : { status: 'skipped' }))
      },
    })
    const subject = await RelayUnderTest.started(root, publisher, {
      retry: { attempts: 5, delayMs: () => 100 },
    })
    await subject.hears('parked')
    await outbox.settled()
    expect(broker.ids()).toEqual(ids)
    expect(subject.heard('dead-lettered')).toEqual([])
  })

  test('O9 a parked message that was in flight at two deaths is tried alone as well', async () => {
    const scheduled = keysOfOneShard(3).map((key) => ({
      topic: 't',
      key,
      payload: 1,
      deliverAt: new Date(0),
    }))
    await publishAll(root, scheduled)
    await die(1)
    await die(1)
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await broker.received(3)
    await outbox.settled()
    expect(broker.calls.map(({ messages }) => messages.length)).toEqual([1, 1, 1])
  })

  test('O9 O6 an unavailable publisher costs suspects no attempts, and is called only after pauses', async () => {
    await publishAll(root, [...messagesOf(poisoned, 2), ...messagesOf(neighbour, 2)])
    await die(1)
    await die(1)
    const broker = new Broker()
    const failures = ATTEMPTS + 1
    const publisher = broker.publisher({
      respond: (call) => {
        if (call.number <= failures) throw new Error('down')
        return call.acceptAll()
      },
    })
    const subject = await RelayUnderTest.started(root, publisher, { retry: RETRY })
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

  test('O9 O10 stop waits for the suspect in flight, and tries no other', async () => {
    const ids = await publishAll(root, messagesOf(poisoned, 5))
    await die(1)
    await die(1)
    const broker = new Broker()
    const gate = new Gate()
    const publisher = broker.publisher({ respond: holding(gate) })
    const subject = await RelayUnderTest.started(root, publisher)
    await gate.reached()
    const stopping = subject.relay.stop()
    gate.open()
    await stopping
    expect(broker.ids()).toEqual(ids.slice(0, 1))
    expect((await outbox.parked()).map(({ id }) => id)).toEqual(ids.slice(1))
    // They are still suspects for the next relay.
    const next = new Broker()
    await RelayUnderTest.started(root, next.publisher({ ordering: 'per-key' }))
    await next.received(4)
    expect(next.calls.map(({ messages }) => messages.length)).toEqual([1, 1, 1, 1])
    expect(next.ids()).toEqual(ids.slice(1))
  })

  test('O9 a relay that is stopped in the middle of a call counts as dead: only the message that hangs finally becomes a dead letter', async () => {
    const [first] = await publishAll(root, messagesOf(neighbour, 1))
    const [poison, after] = await publishAll(root, messagesOf(poisoned, 2))
    for (let stops = 0; stops < ATTEMPTS + 2; stops += 1) {
      const gate = new Gate()
      const publisher = new Broker().publisher({ respond: stuckOn(poison!, gate) })
      const subject = await RelayUnderTest.started(root, publisher, { retry: RETRY })
      await gate.reached()
      await subject.relay.stop({ timeoutMs: 600 })
      await until(
        async () => (await outbox.heldLeases()) === 0,
        () => 'the leases are given back',
      )
    }
    const last = new Broker()
    const subject = await RelayUnderTest.started(root, last.publisher(), { retry: RETRY })
    await subject.hears('dead-lettered')
    await outbox.settled()
    expect(subject.heard('dead-lettered').map(({ id }) => id)).toEqual([poison])
    expect(last.ids(poisoned)).toEqual([after])
    const dead = await createDeadLetters({ database: root.database }).list()
    expect(dead.map(({ id }) => id)).not.toContain(first)
  })

  test('O17 a call that never ends stops its own key and no other shard, also when another relay has died', async () => {
    const [stuck] = await publishAll(root, messagesOf(poisoned, 1))
    const broker = new Broker()
    const gate = new Gate()
    const publisher = broker.publisher({ respond: stuckOn(stuck!, gate) })
    const subject = await RelayUnderTest.started(root, publisher, { publishTimeoutMs: 200 })
    await gate.reached()
    const call = broker.calls[0]!
    await subject.hears('error')
    expect(subject.heard('error')[0]!.error).toMatchObject({ code: 'TXBOX_PUBLISH_TIMEOUT' })
    expect(call.signal.aborted).toBe(true)
    expect(call.signal.reason).toMatchObject({ name: 'TimeoutError' })
    // Another relay took shards, and died of another cause.
    const other = await RelayUnderTest.started(root, new Broker().publisher({ owner: 'other' }), {
      owner: 'other',
      leaseMs: 60_000,
    })
    await other.hears('lease-acquired')
    await outbox.expireLeases('other')
    const ids = await publishAll(root, [
      ...messagesOf(neighbour, 3),
      ...Array.from({ length: 32 }, (_, n) => ({ topic: 't', key: `key-${n}`, payload: n })),
    ])
    await until(
      async () => (await outbox.backlogSize()) === 1,
      () => `only the message that hangs is left. ${subject.describeErrors()}`,
    )
    expect(ids.length).toBe(35)
    gate.open()
    await outbox.settled()
  })
})
