import { describe, expect, onTestFinished, test } from 'vitest'
import { Broker, Gate, holding, type Respond } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, onMainRoot, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const LEASE_MS = 1500

/** How many shards each owner holds, largest first. */
async function shares(): Promise<number[]> {
  const owners = (await outbox.leases()).map(({ owner }) => owner)
  return [...new Set(owners)]
    .map((owner) => owners.filter((one) => one === owner).length)
    .sort((a, b) => b - a)
}

async function untilShares(...expected: number[]): Promise<void> {
  await until(
    async () => (await shares()).join() === expected.join(),
    async () => `shares of ${expected.join()}; there are ${(await shares()).join()}`,
  )
}

function startOn(root: Root, broker: Broker, owner: string): Promise<RelayUnderTest> {
  return RelayUnderTest.started(root, broker.publisher({ owner }), { owner, leaseMs: LEASE_MS })
}

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 8 })
  const start = (broker: Broker, owner: string): Promise<RelayUnderTest> => startOn(root, broker, owner)

  test('O7 relays share the sixteen shards evenly as they come and go, and nothing is lost', async () => {
    const broker = new Broker()
    const a = await start(broker, 'a')
    await untilShares(16)
    const b = await start(broker, 'b')
    await untilShares(8, 8)
    const c = await start(broker, 'c')
    await untilShares(6, 5, 5)
    const ids = await publishAll(root, messagesOf(undefined, 160))
    await broker.received(160)
    expect(new Set(broker.log.map(({ owner }) => owner))).toEqual(new Set(['a', 'b', 'c']))
    expect(broker.ids().sort()).toEqual([...ids].sort())
    await b.relay.stop()
    await untilShares(8, 8)
    await a.relay.stop()
    await untilShares(16)
    await c.relay.stop()
    expect(await outbox.heldLeases()).toBe(0)
    // A lease that a stopping relay releases does not count as lost.
    for (const relay of [a, b, c]) {
      const errors = relay.heard('error').map(({ error }) => String(error))
      // On a busy machine, a renewal may take longer than a third of the short lease.
      expect(errors.filter((error) => !error.includes('Renewing the leases took longer'))).toEqual([])
      expect(new Set(relay.heard('lease-lost').map(({ reason }) => reason))).toEqual(new Set(['stopped']))
    }
  })

  // Owners may have the same name, as a process and the one that replaced it: the term distinguishes them.
  for (const successor of ['b', 'a']) {
    test(`O7 a relay that has lost its lease to '${successor}' publishes no further batch, and settles nothing`, async () => {
      const broker = new Broker()
      const gates = { first: new Gate(), second: new Gate() }
      const publisher = (owner: 'first' | 'second') =>
        broker.publisher({
          owner,
          ordering: 'per-key',
          respond: async (call) => {
            const results = call.acceptAll()
            await gates[owner].pass()
            return results
          },
        })
      const published = (who: 'first' | 'second'): string[] =>
        broker.log.flatMap(({ owner, message }) => (owner === who ? [message.id] : []))
      const [key] = keysOfOneShard(1) as [string]
      const ids = await publishAll(root, messagesOf(key, 4))
      const [busy] = (await outbox.backlog()).map(({ shard }) => shard)
      const options = { leaseMs: LEASE_MS, batchSize: 2 }
      const first = await RelayUnderTest.started(root, publisher('first'), { ...options, owner: 'a' })
      await gates.first.reached()
      const lost = (await outbox.leases()).find(({ shard }) => shard === busy)!
      // As if the first relay had been unreachable for so long. It does not know this yet.
      await outbox.expireLeases()
      const second = await RelayUnderTest.started(root, publisher('second'), { ...options, owner: successor })
      await gates.second.reached()
      const taken = (await outbox.leases()).find(({ shard }) => shard === busy)!
      expect(taken.owner).toBe(successor)
      expect(taken.term).toBeGreaterThan(lost.term)
      // The second relay has the same messages in flight when the first returns: one death costs only the lease.
      expect(published('second')).toEqual(published('first'))
      gates.first.open()
      await first.hears('lease-lost')
      await first.relay.stop()
      const left = [...(await outbox.parked()), ...(await outbox.backlog())]
      expect(left.map(({ id }) => id)).toEqual(ids)
      expect((await outbox.leases()).find(({ shard }) => shard === busy)).toEqual(taken)
      gates.second.open()
      await outbox.settled()
      expect(published('first')).toEqual(ids.slice(0, 2))
      expect(published('second')).toEqual(ids)
      expect(second.heard('lease-lost').filter(({ shard }) => shard === busy)).toEqual([])
    })
  }
})

describe('on one kind of handle', () => {
  const kind = mainKind(target)
  const root = useRoot(target, kind, { max: 8 })
  const start = (broker: Broker, owner: string): Promise<RelayUnderTest> => startOn(root, broker, owner)

  test('O7 an idle relay whose leases another relay has taken detects it at the renewal, even if that relay has the same name', async () => {
    const broker = new Broker()
    const subject = await start(broker, 'a')
    await untilShares(16)
    const before = await outbox.leases()
    for (const { shard, term } of before)
      await outbox.lend(shard, { owner: 'a', term: term + 1n, forMs: 600_000 })
    await subject.hears('lease-lost', 16)
    expect(new Set(subject.heard('lease-lost').map(({ reason }) => reason))).toEqual(new Set(['taken']))
    await publishAll(root, messagesOf(undefined, 32))
    // The relay has continued looking for shards since then, and got none.
    await target.past(new Date((await target.now()).getTime() + LEASE_MS))
    expect((await outbox.leases()).map(({ term }) => term)).toEqual(before.map(({ term }) => term + 1n))
    expect(broker.log).toEqual([])
    expect((await outbox.backlog()).length).toBe(32)
  })

  test('O7 an expired lease that no relay has taken is not renewed, but acquired again', async () => {
    const broker = new Broker()
    const subject = await start(broker, 'a')
    await untilShares(16)
    const before = await outbox.leases()
    await outbox.expireLeases()
    await subject.hears('lease-lost', 16)
    await untilShares(16)
    for (const [n, { term }] of (await outbox.leases()).entries()) expect(term).toBe(before[n]!.term + 1n)
    await publishAll(root, messagesOf(undefined, 32))
    await broker.received(32)
  })

  for (const [ordering, sizes] of [
    ['none', [1, 1, 1, 1]],
    ['per-key', [3, 3]],
  ] as const) {
    test(`O7 a lease that is lost in the middle of a batch ends its calls, and does not make its messages suspects (${ordering})`, async () => {
      const [key] = keysOfOneShard(1) as [string]
      const ids = await publishAll(root, messagesOf(key, 3))
      const broker = new Broker()
      const gate = new Gate()
      const respond: Respond = async (call) => {
        const results = call.acceptAll()
        await gate.pass()
        return results
      }
      const publisher = broker.publisher({ ordering, respond })
      // A busy machine must not let this lease expire a second time: then the messages would be suspects.
      const subject = await RelayUnderTest.started(root, publisher, { leaseMs: 4 * LEASE_MS })
      await gate.reached()
      await outbox.expireLeases()
      // All shards but this one are taken again at once, because none of their messages is in flight.
      await subject.hears('lease-acquired', 16 + 15)
      expect((await outbox.leases()).length).toBe(15)
      gate.open()
      await outbox.settled()
      // The relay has acquired the shard again, and has begun from the beginning.
      expect(broker.ids()).toEqual([...ids.slice(0, sizes[0]), ...ids])
      expect(broker.calls.map(({ messages }) => messages.length)).toEqual(sizes)
      expect(broker.violations).toEqual([])
    })
  }

  test('O7 a relay whose shards are all busy gives away its surplus as soon as none of their messages is in flight', async () => {
    const broker = new Broker()
    const gate = new Gate()
    const publisher = broker.publisher({ ordering: 'per-key', respond: holding(gate) })
    await publishAll(root, messagesOf(undefined, 16))
    await RelayUnderTest.started(root, publisher, { owner: 'a', leaseMs: LEASE_MS })
    await gate.reached(16)
    const b = await start(broker, 'b')
    // The relay sees the other one in one of its rounds, and has no shard to give away.
    await target.past(new Date((await target.now()).getTime() + LEASE_MS))
    expect(await shares()).toEqual([16])
    gate.open()
    await b.hears('lease-acquired', 8)
    await untilShares(8, 8)
  })

  test('O7 each shard has one owner at a time, with a growing term', async () => {
    const broker = new Broker()
    const relays = [await start(broker, 'a')]
    await untilShares(16)
    const first = new Map((await outbox.leases()).map(({ shard, term }) => [shard, term]))
    relays.push(await start(broker, 'b'))
    await untilShares(8, 8)
    await relays[0]!.relay.stop()
    await untilShares(16)
    // The database shows the change first.
    await relays[1]!.hears('lease-acquired', 16)
    const acquisitions = relays.flatMap((relay) => relay.heard('lease-acquired'))
    for (const { shard, owner, term } of await outbox.leases()) {
      expect(owner).toBe('b')
      const turns = acquisitions.filter((event) => event.shard === shard).map((event) => event.term)
      // Each ownership has its own term, in increasing order, and the last one is current.
      expect(turns).toEqual(turns.map((_, n) => first.get(shard)! + BigInt(n)))
      expect(turns.at(-1)).toBe(term)
    }
  })

  for (const shards of [
    [0, 1, 2, 3],
    [12, 13, 14, 15],
  ]) {
    test(`O7 a shard changes its owner only when none of its messages is in flight: ${shards.join()}`, async () => {
      const broker = new Broker()
      const gate = new Gate()
      const hold = broker.publisher({
        owner: 'a',
        respond: holding(gate),
      })
      const keys = shards.map((shard) => keysOfOneShard(1, shard)[0]!)
      const ids = await publishAll(
        root,
        keys.flatMap((key) => messagesOf(key, 3)),
      )
      const a = await RelayUnderTest.started(root, hold, { owner: 'a', leaseMs: LEASE_MS, batchSize: 1 })
      await gate.reached(4)
      const held = async (): Promise<readonly unknown[]> =>
        (await outbox.leases()).filter(({ shard, owner }) => owner === 'a' && shards.includes(shard))
      const before = await held()
      const b = await start(broker, 'b')
      await b.hears('lease-acquired', 4)
      // The call takes longer than a lease, which is renewed while the publisher works.
      await target.past(new Date((await target.now()).getTime() + LEASE_MS + 200))
      expect(await held()).toEqual(before)
      expect(before.length).toBe(4)
      gate.open()
      await broker.received(12)
      for (const [n, key] of keys.entries()) expect(broker.ids(key)).toEqual(ids.slice(n * 3, n * 3 + 3))
      await untilShares(8, 8)
      expect(a.heard('lease-lost').filter(({ reason }) => reason !== 'stopped')).toEqual([])
      expect(broker.violations).toEqual([])
    })
  }

  test('O7 a relay that is cut off from the database is replaced within its lease, and stops publishing', async () => {
    const network = await UnreliableNetwork.to(target.address())
    const remote = target.open(kind, { through: network, max: 6 })
    onTestFinished(async () => {
      await network.close()
      await remote.close()
    })
    const broker = new Broker()
    const a = await RelayUnderTest.started(remote, broker.publisher({ owner: 'a' }), {
      owner: 'a',
      leaseMs: LEASE_MS,
    })
    await publishAll(root, messagesOf(undefined, 16))
    await broker.received(16)
    // `a` gets no error: its connections look open, and no answer arrives.
    network.freeze()
    const { result: ids, tookMs } = await undisturbed(target, async () => {
      await start(broker, 'b')
      const published = await publishAll(root, messagesOf(undefined, 64))
      await broker.received(16 + 64)
      return published
    })
    // Within the lease and the second until the next round; the remaining time is for a slow machine.
    expect(tookMs).toBeLessThan(LEASE_MS + 2500)
    expect(new Set(broker.log.slice(16).map(({ owner }) => owner))).toEqual(new Set(['b']))
    expect(broker.firstIds().slice(16).sort()).toEqual([...ids].sort())
    network.thaw()
    network.cut()
    // `a` recovers by itself, and takes its share.
    await untilShares(8, 8)
    expect(a.heard('lease-lost').some(({ reason }) => reason !== 'stopped')).toBe(true)
  })

  test("O7 O17 a shard whose last owner hangs in a call is taken by another relay, even beyond that relay's share", async () => {
    const [key] = keysOfOneShard(1) as [string]
    const broker = new Broker()
    const gate = new Gate()
    const respond = holding(gate)
    const options = { owner: 'a', leaseMs: LEASE_MS }
    const ids = await publishAll(root, messagesOf(key, 2))
    const a = await RelayUnderTest.started(root, new Broker().publisher({ respond }), options)
    await gate.reached()
    await start(broker, 'b')
    await untilShares(8, 8)
    const [busy] = (await outbox.backlog()).map(({ shard }) => shard)
    const { term } = (await outbox.leases()).find(({ shard }) => shard === busy)!
    await outbox.lend(busy!, { owner: 'nobody', term: term + 1n, forMs: 10 })
    await broker.received(2)
    expect(broker.ids(key)).toEqual(ids)
    // The other relay keeps the shard, also after the call has ended.
    gate.open()
    await a.relay.drain()
    await target.past(new Date((await target.now()).getTime() + LEASE_MS))
    await untilShares(9, 7)
    // The shards are shared evenly again when relays come or go.
    await a.relay.stop()
    await untilShares(16)
    await start(broker, 'c')
    await untilShares(8, 8)
  })

  test('O7 an owner that died is replaced within its lease', async () => {
    // Only its leases are left.
    const broker = new Broker()
    const dead = await start(broker, 'dead')
    await untilShares(16)
    const leases = await outbox.leases()
    await dead.relay.stop()
    const lendingAt = performance.now()
    for (const { shard, term } of leases)
      await outbox.lend(shard, { owner: 'dead', term: term + 1n, forMs: LEASE_MS })
    const { result: next, tookMs } = await undisturbed(target, async () => {
      await publishAll(root, messagesOf(undefined, 32))
      const started = await start(broker, 'next')
      await broker.received(32)
      return started
    })
    expect(performance.now() - lendingAt).toBeGreaterThanOrEqual(LEASE_MS - 100)
    expect(tookMs).toBeLessThan(LEASE_MS + 2500)
    expect(
      next
        .heard('lease-acquired')
        .every(({ shard, term }) => term > leases.find((lease) => lease.shard === shard)!.term),
    ).toBe(true)
  })
})
