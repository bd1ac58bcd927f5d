import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError } from '@txbox/core'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import {
  messagesOf,
  publishAll,
  RelayUnderTest,
  withRelayStore,
  withStatementTimeout,
} from '../../support/subjects/relay-under-test.ts'
import {
  kindsOfRoots,
  onEachRoot,
  useTarget,
  type HandleKind,
  type Root,
} from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const KEYS = ['a', 'b', 'c']

/** A relay whose network to the database can fail, and a root whose network cannot. */
async function remoteRelay(
  kind: HandleKind,
  leaseMs: number,
  alter = (root: Root): Pick<Root, 'database'> => root,
) {
  const network = await UnreliableNetwork.to(target.address())
  const remote = target.open(kind, { through: network, max: 6 })
  const direct = target.open(kind)
  onTestFinished(async () => {
    await network.close()
    await Promise.all([remote.close(), direct.close()])
  })
  const broker = new Broker()
  const subject = await RelayUnderTest.started(alter(remote), broker.publisher(), {
    leaseMs,
    batchSize: 3,
  })
  return { network, direct, broker, subject }
}

/** Publishes until it must stop. @returns the published messages, by key */
async function produce(root: Root, signal: AbortSignal): Promise<Map<string, string[]>> {
  const published = new Map<string, string[]>(KEYS.map((key) => [key, []]))
  while (!signal.aborted) {
    for (const key of KEYS) published.get(key)!.push(...(await publishAll(root, messagesOf(key, 2))))
  }
  return published
}

onEachRoot(target, (kind) => {
  test('O10 the relay continues when the server ends all its connections, again and again', async () => {
    const root = target.open(kind, { max: 6 })
    onTestFinished(() => root.close())
    const broker = new Broker()
    // Longer than this test waits: the shard that was being settled is released, and its lease does not have to expire.
    const subject = await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }), {
      batchSize: 3,
      leaseMs: 60_000,
    })
    const published = new Map<string, string[]>(KEYS.map((key) => [key, []]))
    for (let round = 1; round <= 4; round += 1) {
      const producer = target.open(kind)
      for (const key of KEYS) published.get(key)!.push(...(await publishAll(producer, messagesOf(key, 10))))
      await producer.close()
      await broker.received(round * 10 * KEYS.length - 15)
      expect(await outbox.cutConnections()).toBeGreaterThan(0)
    }
    await broker.received(40 * KEYS.length)
    await subject.relay.drain()
    for (const key of KEYS) expect(broker.firstIds(key)).toEqual(published.get(key))
    expect(broker.violations).toEqual([])
    expect(await outbox.backlog()).toEqual([])
    expect(subject.heard('unavailable')).toEqual([])
  })

  test('O7 O10 a shard that could not be released at once is soon worked on again, long before its lease expires', async () => {
    const root = target.open(kind, { max: 6 })
    onTestFinished(() => root.close())
    const broker = new Broker()
    const calls = { settle: 0, release: 0 }
    const cut = (call: keyof typeof calls, times: number): void => {
      calls[call] += 1
      if (calls[call] <= times) throw new DatabaseUnavailableError(`${call} was cut off`)
    }
    const altered = withRelayStore(
      root,
      (inner) => ({
        async settle(...settled) {
          cut('settle', 1)
          await inner.settle(...settled)
        },
      }),
      (inner) => ({
        async release(leases) {
          cut('release', 3)
          await inner.release(leases)
        },
      }),
    )
    const subject = await RelayUnderTest.started(altered, broker.publisher(), { leaseMs: 60_000 })
    const ids = await publishAll(root, messagesOf('a', 3))
    await outbox.settled()
    expect(broker.firstIds('a')).toEqual(ids)
    expect(calls.release).toBeGreaterThan(3)
    expect(subject.heard('error')).toHaveLength(2)
  })

  test('O10 when connections are cut while producers and relay work, nothing is lost and the order is kept', async () => {
    const { network, direct, broker, subject } = await remoteRelay(kind, 1500)
    const closing = new AbortController()
    const producing = produce(direct, closing.signal)
    for (let round = 1; round <= 6; round += 1) {
      const before = broker.firstIds().length
      await broker.received(before + 10)
      network.cut()
    }
    closing.abort()
    const published = await producing
    await broker.received([...published.values()].flat().length)
    await subject.relay.drain()
    for (const key of KEYS) expect(broker.firstIds(key)).toEqual(published.get(key))
    expect(broker.violations).toEqual([])
    expect(await outbox.backlog()).toEqual([])
  })

  test('O10 when the database is unavailable for longer than the lease, the relay reports it, waits and continues', async () => {
    const { network, direct, broker, subject } = await remoteRelay(kind, 700)
    await publishAll(direct, messagesOf('a', 3))
    await broker.received(3)
    await outbox.settled()
    await network.down()
    const ids = await publishAll(direct, messagesOf('a', 5, 4))
    await subject.hears('error')
    await until(
      async () => subject.heard('lease-lost').length === 16,
      () => `all leases have run out. ${subject.describeErrors()}`,
    )
    expect(broker.ids().length).toBe(3)
    expect(subject.heard('error').map(({ error }) => Reflect.get(error as object, 'code'))).toContain(
      'TXBOX_DATABASE_UNAVAILABLE',
    )
    await network.up()
    await broker.received(8)
    await subject.relay.drain()
    expect(broker.ids('a').slice(3)).toEqual(ids)
    expect(await outbox.backlog()).toEqual([])
    // No failure was caused by the publisher.
    expect(subject.heard('unavailable')).toEqual([])
  })

  test('O10 when the database does not answer for a time, the relay continues by itself afterwards', async () => {
    const { network, direct, broker, subject } = await remoteRelay(kind, 700)
    await publishAll(direct, messagesOf('a', 3))
    await broker.received(3)
    await outbox.settled()
    network.freeze()
    const ids = await publishAll(direct, messagesOf('a', 5, 4))
    await until(
      async () => subject.heard('lease-lost').length === 16,
      () => `all leases have run out. ${subject.describeErrors()}`,
    )
    network.thaw()
    await broker.received(8)
    await subject.relay.drain()
    expect(broker.firstIds('a').slice(3)).toEqual(ids)
    expect(await outbox.backlog()).toEqual([])
  })

  test('O10 when a server breaks its connections and accepts no new ones, the relay sees its leases expire, and continues later', async () => {
    const { network, direct, broker, subject } = await remoteRelay(kind, 700)
    await publishAll(direct, messagesOf('a', 3))
    await broker.received(3)
    await outbox.settled()
    network.freeze()
    network.cut()
    const ids = await publishAll(direct, messagesOf('a', 5, 4))
    await until(
      async () => subject.heard('lease-lost').length === 16,
      () => `all leases have run out. ${subject.describeErrors()}`,
    )
    network.thaw()
    await broker.received(8)
    await subject.relay.drain()
    expect(broker.firstIds('a').slice(3)).toEqual(ids)
    expect(await outbox.backlog()).toEqual([])
  })
})

// Kysely cannot discard a connection of PostgreSQL on which a statement is in flight.
for (const kind of kindsOfRoots(target).filter(
  ({ library }) => library !== 'kysely' || target.engine !== 'postgres',
)) {
  test(`O10 connections that never answer again are given up, and the relay continues with new ones (${kind.name})`, async () => {
    let askedMs = 0
    const { network, direct, broker, subject } = await remoteRelay(kind, 1500, (root) =>
      withStatementTimeout(root, 1000, (ms) => (askedMs = ms)),
    )
    // A busy database may take longer than the lease.
    expect(askedMs).toBe(5000)
    await publishAll(direct, messagesOf('a', 3))
    await broker.received(3)
    await outbox.settled()
    const abandoned = network.abandon()
    const ids = await publishAll(direct, messagesOf('a', 5, 4))
    // The relay gives up a statement without an answer after a second.
    await until(
      async () => broker.firstIds().length >= 8,
      () => `8 messages. ${subject.describeErrors()}`,
      20_000,
    )
    await outbox.settled()
    expect(broker.firstIds('a').slice(3)).toEqual(ids)
    // The relay has recovered completely: it finds new messages in every shard, again and again.
    for (let round = 1; round <= 3; round += 1) {
      await publishAll(direct, messagesOf(undefined, 64))
      await outbox.settled()
    }
    abandoned.cut()
  })
}
