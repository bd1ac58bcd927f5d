import { setTimeout as pause } from 'node:timers/promises'
import { DatabaseUnavailableError } from '@txbox/core'
import { shardOf } from '@txbox/core/internal'
import { describe, expect, test } from 'vitest'
import { Broker, Gate, holding, rejected } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  publishAll,
  publishIn,
  RelayUnderTest,
  withRelayStore,
} from '../../support/subjects/relay-under-test.ts'
import { mainKind, onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const EMPTY_DRAIN = { published: 0, parked: 0, deadLettered: 0 }

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 8 })

  test('drain publishes all due messages, on a relay that is not running, as often as it is called', async () => {
    const broker = new Broker()
    const publisher = broker.publisher()
    const subject = new RelayUnderTest(root, publisher, { batchSize: 7 })
    expect(await subject.relay.drain()).toEqual(EMPTY_DRAIN)
    for (const round of [1, 2]) {
      await publishAll(root, [...messagesOf('a', 30), ...messagesOf('b', 30), ...messagesOf(undefined, 40)])
      expect(await subject.relay.drain()).toEqual({ ...EMPTY_DRAIN, published: 100 })
      expect(await outbox.backlog()).toEqual([])
      expect(broker.ids().length).toBe(round * 100)
      // Between two drains the relay holds no lease.
      expect(await outbox.heldLeases()).toBe(0)
    }
    expect(publisher.closed).toBe(0)
    await subject.relay.stop()
    expect(publisher.closed).toBe(1)
  })

  test('drain on a running relay waits until all messages have been settled, and the relay continues', async () => {
    const broker = new Broker()
    const subject = await RelayUnderTest.started(root, broker.publisher(), { batchSize: 10 })
    for (let round = 1; round <= 5; round += 1) {
      const ids = await publishAll(root, [...messagesOf('a', 20), ...messagesOf('b', 20)])
      const { published } = await subject.relay.drain()
      expect(published).toBeLessThanOrEqual(ids.length)
      expect(await outbox.backlog()).toEqual([])
      expect(broker.ids().length).toBe(round * 40)
    }
    expect((await outbox.leases()).length).toBe(16)
  })
})

describe('on one kind of handle', () => {
  const kind = mainKind(target)
  const root = useRoot(target, kind, { max: 8 })

  test('drain counts parked messages, and does not wait for messages that are not due', async () => {
    await publishAll(root, [...messagesOf('a', 3), ...messagesOf('b', 3)])
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) => (message.key === 'a' ? rejected() : call.accept(message))),
    })
    const subject = new RelayUnderTest(root, publisher, { retry: { attempts: 9, delayMs: () => 600_000 } })
    expect(await subject.relay.drain()).toEqual({ published: 3, parked: 3, deadLettered: 0 })
    expect((await outbox.parked()).map(({ key, due }) => [key, due])).toEqual([
      ['a', true],
      ['a', false],
      ['a', false],
    ])
  })

  test('drain waits for messages that another relay is publishing', async () => {
    const broker = new Broker()
    const gate = new Gate()
    const slow = broker.publisher({ owner: 'slow', respond: holding(gate) })
    const ids = await publishAll(root, messagesOf('a', 1))
    const other = await RelayUnderTest.started(root, slow)
    await gate.reached()
    let asked = 0
    const counting = withRelayStore(root, (inner) => ({
      work(shards) {
        asked += 1
        return inner.work(shards)
      },
    }))
    const subject = new RelayUnderTest(counting, broker.publisher({ owner: 'drains' }), {
      pollIntervalMs: { min: 20, max: 20 },
    })
    let drained = false
    const draining = subject.relay.drain().then((counts) => {
      drained = true
      return counts
    })
    await subject.hears('lease-acquired', 8)
    expect(drained).toBe(false)
    // The relay polls at intervals, not continuously.
    asked = 0
    await pause(400)
    expect(asked).toBeGreaterThan(5)
    expect(asked).toBeLessThan(80)
    gate.open()
    expect(await draining).toEqual(EMPTY_DRAIN)
    expect(broker.log.map(({ owner, message }) => [owner, message.id])).toEqual([['slow', ids[0]]])
    expect(await outbox.backlog()).toEqual([])
    await other.relay.stop()
  })

  test('drain ends when all messages have been seen, not at the next poll', async () => {
    await publishAll(root, [...messagesOf('a', 3), ...messagesOf('b', 3)])
    const publisher = new Broker().publisher()
    const subject = new RelayUnderTest(root, publisher, { pollIntervalMs: { min: 5000, max: 5000 } })
    const startedAt = performance.now()
    expect(await subject.relay.drain()).toEqual({ ...EMPTY_DRAIN, published: 6 })
    expect(performance.now() - startedAt).toBeLessThan(4000)
  })

  test('drain does not wait for transactions that are open', async () => {
    const broker = new Broker()
    const open = await root.begin()
    await publishIn(root, open, messagesOf('a', 2))
    await publishAll(root, messagesOf('a', 2, 3))
    const subject = new RelayUnderTest(root, broker.publisher())
    expect(await subject.relay.drain()).toEqual({ ...EMPTY_DRAIN, published: 2 })
    await open.commit()
    expect(await subject.relay.drain()).toEqual({ ...EMPTY_DRAIN, published: 2 })
  })

  test('O10 while the database is away, drain reports it with growing pauses, and continues afterwards', async () => {
    let isAway = false
    let asked = 0
    const altered = withRelayStore(
      root,
      (inner) => ({
        async work(shards) {
          asked += 1
          if (isAway) throw new DatabaseUnavailableError('away')
          return inner.work(shards)
        },
      }),
      (inner) => ({
        async acquire(names, request) {
          if (isAway) throw new DatabaseUnavailableError('away')
          return inner.acquire(names, request)
        },
      }),
    )
    const broker = new Broker()
    const ids = await publishAll(root, messagesOf('a', 3))
    isAway = true
    const subject = new RelayUnderTest(altered, broker.publisher(), {
      pollIntervalMs: { min: 5, max: 5 },
    })
    const draining = subject.relay.drain()
    await pause(2000)
    expect(asked).toBeLessThan(30)
    expect(subject.heard('error').length).toBeGreaterThan(1)
    isAway = false
    expect(await draining).toEqual({ ...EMPTY_DRAIN, published: 3 })
    expect(broker.ids()).toEqual(ids)
  })

  test.for(['kept', 'lost'])(
    'drain counts a batch that is no longer in the outbox, but whose settlement is not answered yet (lease %s)',
    async (lease) => {
      await publishAll(root, messagesOf('a', 3))
      const settled = Promise.withResolvers<void>()
      // The query for messages sees the tables after the first settlement, and returns before that settlement has
      // returned.
      const late = withRelayStore(root, (inner) => ({
        async work(shards) {
          await settled.promise
          return inner.work(shards)
        },
        async settle(...values) {
          await inner.settle(...values)
          if (lease === 'lost') {
            await outbox.lend(shardOf('a'), { owner: 'other', term: 99n, forMs: 1500 })
            await subject.hears('lease-lost')
          }
          settled.resolve()
          await pause(200)
        },
      }))
      const subject = new RelayUnderTest(late, new Broker().publisher(), { leaseMs: 500 })
      expect(await subject.relay.drain()).toEqual({ ...EMPTY_DRAIN, published: 3 })
      expect(subject.heard('published')).toMatchObject([{ count: 3 }])
    },
  )

  test('drain continues through an outage of the publisher', async () => {
    const ids = await publishAll(root, messagesOf('a', 3))
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) => {
        if (call.number <= 2) throw new Error('down')
        return call.acceptAll()
      },
    })
    const subject = new RelayUnderTest(root, publisher)
    expect(await subject.relay.drain()).toEqual({ ...EMPTY_DRAIN, published: 3 })
    expect(broker.ids()).toEqual(ids)
  })

  test('O10 stop ends a drain that cannot complete', async () => {
    await publishAll(root, messagesOf('a', 3))
    const broker = new Broker()
    const down = broker.publisher({
      respond: () => {
        throw new Error('down')
      },
    })
    const subject = new RelayUnderTest(root, down)
    const draining = subject.relay.drain()
    await subject.hears('unavailable', 2)
    await subject.relay.stop()
    expect(await draining).toMatchObject({ published: 0 })
    expect(await outbox.heldLeases()).toBe(0)
    expect((await outbox.backlog()).length).toBe(3)
  })

  test('two concurrent drains both report correct figures', async () => {
    await publishAll(root, messagesOf('a', 50))
    const broker = new Broker()
    const subject = new RelayUnderTest(root, broker.publisher({ ordering: 'per-key' }), { batchSize: 5 })
    await Promise.all([subject.relay.drain(), subject.relay.drain()])
    expect(await outbox.backlog()).toEqual([])
    expect(broker.ids().length).toBe(50)
  })
})
