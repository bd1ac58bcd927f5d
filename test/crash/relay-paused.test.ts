import { describe, expect, test } from 'vitest'
import { Broker, Gate } from '../support/worlds/broker.ts'
import { stepsOfTier } from '../support/tiers/crash-steps.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { relayStatementsOf } from '../support/subjects/relay-statements.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import type { Step } from './programs/mortal.ts'
import type { RelayConfig } from './programs/relay.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library !== 'kysely')!
const root = useRoot(target, kind, { max: 8 })
// Each renewal may take a third of this, also while a busy machine runs other tests.
const LEASE_MS = 3000
const statements = relayStatementsOf(target)

function relayConfig(log: DeliveryLog, options: Partial<RelayConfig> = {}): RelayConfig {
  const base = { url: outbox.url(), log: log.file, owner: 'sleeper', leaseMs: LEASE_MS, batchSize: 2 }
  return { ...base, ordering: 'per-key', ...options }
}

function callsOf(log: DeliveryLog): number {
  return log.entries().filter(({ what }) => what === 'call').length
}

/** The messages that are still to be published, in the outbox or parked. */
async function waiting(): Promise<string[]> {
  // A message that is being parked meanwhile is seen twice, and never overlooked.
  const rows = [...(await outbox.backlog()), ...(await outbox.parked())]
  return [...new Set(rows.map(({ id }) => id))].sort()
}

/** The shards of calls that began after this line of the log, on a lease from before it. */
function shardsOnOldLeases(log: DeliveryLog, owner: string, fromLine: number): number[] {
  const acquired = new Set<number>()
  return log
    .entries()
    .slice(fromLine)
    .flatMap((entry) => {
      if (entry.owner !== owner) return []
      if (entry.what === 'lease' && entry.held) acquired.add(entry.shard)
      return entry.what === 'call' ? entry.shards.filter((shard) => !acquired.has(shard)) : []
    })
}

/** The successor publishes, and holds back its answer until the gate opens. */
function successor(gate: Gate, broker: Broker): Promise<RelayUnderTest> {
  const publisher = broker.publisher({
    owner: 'successor',
    ordering: 'per-key',
    respond: async (call) => {
      const results = call.acceptAll()
      await gate.pass()
      return results
    },
  })
  return RelayUnderTest.started(root, publisher, { owner: 'successor', leaseMs: LEASE_MS, batchSize: 2 })
}

describe('a relay that is paused beyond its lease', () => {
  test('O7 while it publishes: it finishes that call, begins no other, and its late settlement changes nothing', async () => {
    const log = new DeliveryLog()
    const ids = await publishAll(root, messagesOf('a', 6))
    const sleeper = await Program.started('relay', relayConfig(log, { gated: true }))
    await sleeper.reports('publishing')
    sleeper.pause()
    await sleeper.paused()
    const broker = new Broker()
    const gate = new Gate()
    const next = await successor(gate, broker)
    await gate.reached()
    expect(broker.ids()).toEqual(ids.slice(0, 2))

    sleeper.say('go')
    sleeper.resume()
    await sleeper.reports('lost')
    await log.delivered(2)
    // All messages are still there, although the sleeper has published two, which were accepted.
    expect(await waiting()).toEqual(ids)
    expect(callsOf(log)).toBe(1)
    gate.open()
    await outbox.settled()
    expect(broker.ids()).toEqual(ids)
    expect(log.deliveries().map(({ id }) => id)).toEqual(ids.slice(0, 2))
    expect(next.heard('lease-lost').filter(({ reason }) => reason !== 'stopped')).toEqual([])
  })

  const steps: Record<string, Step> = {
    'when it has read, before it publishes': { statement: statements.read, phase: 'answered' },
    'before it settles': { statement: statements.settle, phase: 'before' },
    'before it renews its leases': { statement: statements.renew, phase: 'before' },
    'when it has got its shards': statements.hasTaken,
  }
  for (const [when, step] of stepsOfTier(steps)) {
    test(`O7 ${when}: it begins no call for messages of its successor, and settles none of them`, async () => {
      const log = new DeliveryLog()
      const keys = ['a', 'b', 'c']
      await publishAll(
        root,
        keys.flatMap((key) => messagesOf(key, 5, 11)),
      )
      const sleeper = new Program('relay', relayConfig(log, { fate: { step, signal: 'SIGSTOP' } }))
      await sleeper.paused()
      await publishAll(
        root,
        keys.flatMap((key) => messagesOf(key, 5, 16)),
      )
      const broker = new Broker()
      const gate = new Gate()
      await successor(gate, broker)
      await gate.reached()
      const before = await waiting()
      const calls = callsOf(log)

      sleeper.resume()
      await sleeper.reports('lost')
      // The relay continues, and has acquired shards without messages.
      await until(
        async () => (await outbox.leases()).some(({ owner }) => owner === 'sleeper'),
        () => 'the sleeper has shards again',
      )
      expect(callsOf(log)).toBe(calls)
      expect(await waiting()).toEqual(before)
      gate.open()
      await outbox.settled()

      // Each relay has kept the order, and together they have published all messages.
      for (const key of keys) {
        const bySleeper = log
          .deliveries()
          .filter((entry) => entry.key === key)
          .map(({ body }) => body)
        const bySuccessor = broker.log.flatMap(({ message }) => (message.key === key ? [message.text()] : []))
        const expected = messagesOf(key, 10, 11).map(({ payload }) => JSON.stringify(payload))
        expect([...new Set([...bySleeper, ...bySuccessor])].sort()).toEqual(expected)
        for (const seen of [bySleeper, bySuccessor]) expect(seen).toEqual([...seen].sort())
      }
    })
  }

  test('O7 again and again while it works: no message is lost, and each shard gets at most the call that had begun', async () => {
    const log = new DeliveryLog()
    const sleeper = await Program.started('relay', relayConfig(log, { batchSize: 5 }))
    const other = await Program.started('relay', relayConfig(log, { owner: 'other', batchSize: 5 }))
    const keys = Array.from({ length: 6 }, (_, n) => `key-${n}`)
    for (let round = 0; round < 3; round += 1) {
      await publishAll(
        root,
        keys.flatMap((key) => messagesOf(key, 30, 1 + round * 30)),
      )
      await log.delivered(round * 180 + 20)
      sleeper.pause()
      await sleeper.paused()
      // The other relay takes all shards of the sleeper.
      await until(
        async () => (await outbox.leases()).filter(({ owner }) => owner === 'other').length === 16,
        () => 'the other relay has all shards',
      )
      const line = log.entries().length
      sleeper.resume()
      await outbox.settled()
      const shards = shardsOnOldLeases(log, 'sleeper', line)
      expect(new Set(shards).size).toBe(shards.length)
    }
    for (const key of keys) {
      const expected = messagesOf(key, 90).map(({ payload }) => JSON.stringify(payload))
      expect(log.bodiesOf(key), key).toEqual(expected)
    }
    expect(log.differing()).toEqual([])
    expect(await other.kill('SIGTERM')).toBe(0)
  })
})

test('O7 a relay whose event loop is blocked for longer than its lease: replaced and fenced', async () => {
  const log = new DeliveryLog()
  const ids = await publishAll(root, messagesOf('a', 6))
  const sleeper = await Program.started('relay', relayConfig(log, { blockMs: LEASE_MS * 3 }))
  await until(
    async () => log.entries().some(({ what }) => what === 'call'),
    () => 'the publisher is called',
  )
  const broker = new Broker()
  const gate = new Gate()
  await successor(gate, broker)
  await gate.reached()
  expect(log.deliveries()).toEqual([])
  expect(broker.ids()).toEqual(ids.slice(0, 2))
  // Its event loop continues, and the relay detects the loss.
  await sleeper.reports('lost')
  await log.delivered(2)
  expect(await waiting()).toEqual(ids)
  expect(callsOf(log)).toBe(1)
  gate.open()
  await outbox.settled()
  expect(log.deliveries().map(({ id }) => id)).toEqual(ids.slice(0, 2))
  expect(broker.ids()).toEqual(ids)
})
