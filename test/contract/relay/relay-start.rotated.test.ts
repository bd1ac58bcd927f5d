import { describe, expect, onTestFinished, test } from 'vitest'
import { createRelay, DatabaseUnavailableError, InvalidOptionError, type RelayOptions } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('start rejects with a DatabaseUnavailableError if the database cannot be reached, and may be called again', async () => {
    const network = await UnreliableNetwork.to(target.address())
    const remote = target.open(kind, { through: network })
    onTestFinished(async () => {
      await network.close()
      await remote.close()
    })
    await network.down()
    const broker = new Broker()
    const subject = new RelayUnderTest(remote, broker.publisher())
    for (const begin of [() => subject.relay.start(), () => subject.relay.drain()]) {
      const error: unknown = await begin().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(DatabaseUnavailableError)
      expect(error).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE', retryable: true })
    }
    await network.up()
    const ids = await publishAll(root, messagesOf('a', 2))
    await subject.relay.start()
    await broker.received(2)
    expect(broker.ids()).toEqual(ids)
  })

  test('a second call of start starts no second relay', async () => {
    const broker = new Broker()
    const subject = new RelayUnderTest(root, broker.publisher())
    const ids = await publishAll(root, messagesOf('a', 3))
    await Promise.all([subject.relay.start(), subject.relay.start()])
    await subject.relay.start()
    await subject.relay.drain()
    expect(broker.ids()).toEqual(ids)
    expect(subject.heard('lease-acquired').length).toBe(16)
  })

  test('the events report what happened', async () => {
    const broker = new Broker()
    const ids = await publishAll(root, messagesOf('a', 5))
    const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }))
    await outbox.settled()
    await subject.relay.stop()
    const published = subject.heard('published')
    expect(published.reduce((sum, { count }) => sum + count, 0)).toBe(ids.length)
    expect(new Set(published.map(({ shard }) => shard)).size).toBe(1)
    for (const { durationMs } of published) expect(durationMs).toBeGreaterThan(0)
    const shards = Array.from({ length: 16 }, (_, shard) => shard)
    for (const name of ['lease-acquired', 'lease-lost'] as const) {
      const changes = [...subject.heard(name)].sort((a, b) => a.shard - b.shard)
      expect(changes.map(({ shard }) => shard)).toEqual(shards)
      for (const { term } of changes) expect(term).toBeTypeOf('bigint')
    }
  })
})

describe('on one kind of handle', () => {
  const kind = mainKind(target)
  const root = useRoot(target, kind)

  test('listeners that throw disturb nothing', async () => {
    const broker = new Broker()
    const ids = await publishAll(root, [...messagesOf('a', 3), ...messagesOf('b', 1)])
    const publisher = broker.publisher({
      respond: (call) => {
        if (call.number === 1) throw new Error('down')
        return call.messages.map((message) =>
          message.key === 'b' && message.attempt === 1
            ? { status: 'rejected', error: new Error('refused'), retryable: true }
            : call.accept(message),
        )
      },
    })
    const subject = new RelayUnderTest(root, publisher, { retry: { attempts: 5, delayMs: () => 5 } })
    let calls = 0
    const fail = (): never => {
      calls += 1
      throw new Error('a listener failed')
    }
    const failLater: () => unknown = async () => {
      throw new Error('a listener failed later')
    }
    for (const name of [
      'published',
      'parked',
      'unavailable',
      'lease-acquired',
      'lease-lost',
      'error',
    ] as const) {
      subject.relay.on(name, fail)
      // A listener may be async, although nobody waits for it.
      subject.relay.on(name, failLater)
    }
    await subject.relay.start()
    await broker.received(4)
    await outbox.settled()
    await subject.relay.stop()
    expect(calls).toBeGreaterThan(32)
    expect(broker.ids('a')).toEqual(ids.slice(0, 3))
    expect(await outbox.heldLeases()).toBe(0)
  })

  test("an 'error' without a listener does not throw", async () => {
    const network = await UnreliableNetwork.to(target.address())
    const remote = target.open(kind, { through: network })
    onTestFinished(async () => {
      await network.close()
      await remote.close()
    })
    const broker = new Broker()
    const relay = createRelay({
      database: remote.database,
      publisher: broker.publisher(),
      pollIntervalMs: { min: 2, max: 20 },
    })
    onTestFinished(() => relay.stop({ timeoutMs: 500 }))
    await relay.start()
    network.cut()
    await publishAll(root, messagesOf('a', 1))
    await broker.received(1)
  })

  test('a removed listener is not called any more, and the others still are', async () => {
    const broker = new Broker()
    const subject = new RelayUnderTest(root, broker.publisher())
    let heard = 0
    let heardAfterwards = 0
    const off = subject.relay.on('lease-acquired', () => (heard += 1))
    subject.relay.on('lease-lost', () => (heardAfterwards += 1))
    await subject.relay.start()
    await subject.hears('lease-acquired', 16)
    off()
    off()
    const offLost = subject.relay.on('lease-lost', () => (heard += 1))
    offLost()
    await subject.relay.stop()
    expect([heard, heardAfterwards]).toEqual([16, 16])
    expect(subject.heard('lease-lost').length).toBe(16)
  })

  const publisher = new Broker().publisher()
  const wrong: Record<string, unknown> = {
    nothing: undefined,
    null: null,
    'no database': { database: undefined },
    'a database without connections': { database: target.detached() },
    'a database that is none': { database: {} },
    'no publisher': { publisher: undefined },
    'a publisher without publish': { publisher: {} },
    'a publisher that is a function': { publisher: () => [] },
    'a publisher of an unknown ordering': { publisher: { publish: async () => [], ordering: 'total' } },
    'batchSize 0': { batchSize: 0 },
    'batchSize 1.5': { batchSize: 1.5 },
    'batchSize as text': { batchSize: '10' },
    'batchSize 1e9': { batchSize: 1e9 },
    'batchBytes 0': { batchBytes: 0 },
    'batchBytes NaN': { batchBytes: Number.NaN },
    'pollIntervalMs as a number': { pollIntervalMs: 100 },
    'pollIntervalMs upside down': { pollIntervalMs: { min: 100, max: 10 } },
    'pollIntervalMs 0': { pollIntervalMs: { min: 0, max: 0 } },
    'pollIntervalMs with a misspelt member': { pollIntervalMs: { minimum: 10 } },
    'leaseMs 0': { leaseMs: 0 },
    'leaseMs Infinity': { leaseMs: Number.POSITIVE_INFINITY },
    'an empty owner': { owner: '' },
    'an owner with a NUL': { owner: 'a\0b' },
    'an owner of 201 characters': { owner: 'x'.repeat(201) },
    'a retry policy that is null': { retry: null },
    'a retry policy that is none': { retry: { attempts: 3 } },
    'a retry policy without attempts': { retry: { attempts: 0, delayMs: () => 1 } },
    'a signal that is none': { signal: {} },
    'an unknown wakeup': { wakeup: 'push' },
    'an unknown option': { batchsize: 10 },
  }

  for (const [what, options] of Object.entries(wrong)) {
    test(`createRelay refuses ${what} when it is called`, () => {
      const good = { database: root.database, publisher }
      const all = options === undefined || options === null ? options : { ...good, ...options }
      expect(() => createRelay(all as RelayOptions)).toThrow(InvalidOptionError)
    })
  }

  test('createRelay takes every option at its bounds', async () => {
    const relay = createRelay({
      database: root.database,
      publisher,
      batchSize: 10_000,
      batchBytes: 1024,
      pollIntervalMs: { min: 1, max: 1 },
      wakeup: 'poll',
      leaseMs: 600_000,
      owner: 'ü'.repeat(200),
      retry: { attempts: 1, delayMs: () => 0 },
      signal: new AbortController().signal,
    })
    await relay.start()
    await relay.stop()
  })
})

// A pool exposes how many connections it may open.
for (const kind of target.kinds.filter(({ library }) => library === 'pg')) {
  test(`a pool of one connection is refused: ${kind.name}`, async () => {
    const root = target.open(kind, { max: 1 })
    onTestFinished(() => root.close())
    expect(() => createRelay({ database: root.database, publisher: new Broker().publisher() })).toThrow(
      InvalidOptionError,
    )
  })

  test(`two connections are enough: ${kind.name}`, async () => {
    const root = target.open(kind, { max: 2 })
    onTestFinished(() => root.close())
    const broker = new Broker()
    const subject = new RelayUnderTest(root, broker.publisher(), { leaseMs: 1500 })
    const ids = await publishAll(root, [...messagesOf('a', 3), ...messagesOf(undefined, 32)])
    await subject.relay.start()
    await broker.received(ids.length)
    await outbox.settled()
    expect(subject.heard('error')).toEqual([])
  })
}
