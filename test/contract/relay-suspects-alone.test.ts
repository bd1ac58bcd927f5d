import { expect, test } from 'vitest'
import { shardOf } from '@txbox/core'
import { Broker, Gate } from '../support/broker.ts'
import { keysOfOneShard } from '../support/keys.ts'
import { MortalRelay, type RelayWitness } from '../support/mortal-relay.ts'
import { useOutboxTarget } from '../support/outbox-target.ts'
import { publishAll, RelayUnderTest } from '../support/relay-under-test.ts'
import { useRoot, useTarget } from '../support/target.ts'
import { until } from '../support/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// What is under way in one process: what the database's library is makes no difference.
const root = useRoot(target, target.kinds[0]!)
const LEASES = target.engine === 'postgres' ? 'txbox.leases' : 'txbox_leases'
const [suspect] = keysOfOneShard(1, 3) as [string]
const [innocent] = keysOfOneShard(1, 7) as [string]
const message = (key: string) => ({ topic: 't', key, payload: 1 })

/** A relay whose first call hangs until the gate opens, and the keys that it has read. */
async function started(broker: Broker, gate: Gate): Promise<{ hasRead(key: string): Promise<void> }> {
  // Of this one shard the owner has died.
  const shard = shardOf(suspect)
  await outbox.sql(`insert into ${LEASES} (name) values (?)`, [`outbox/${String(shard).padStart(2, '0')}`])
  await outbox.lend(shard, { owner: 'dead', term: 1n, forMs: -1000 })
  const read: (string | undefined)[] = []
  const witness: RelayWitness = {
    reads: (_, messages) => void read.push(...messages.map(({ key }) => key)),
    settles: () => undefined,
    now: () => 0,
    died: () => undefined,
  }
  const publisher = broker.publisher({
    respond: async (call) => {
      if (call.number === 1) await gate.pass()
      return call.acceptAll()
    },
  })
  await RelayUnderTest.started(new MortalRelay('relay', root.database, witness), publisher)
  return {
    // Before it is tried, a suspect is read twice: from the outbox, and then as parked.
    hasRead: (key) =>
      until(
        async () => read.filter((one) => one === key).length >= (key === suspect ? 2 : 1),
        () => `it has read ${key}`,
      ),
  }
}

/** Enough round trips for whoever is not kept from going on. */
async function roundTrips(): Promise<void> {
  for (let n = 0; n < 30; n += 1) await outbox.parked()
}

test('O9 while a suspect is tried, no other shard publishes', async () => {
  await publishAll(root, [message(suspect)])
  const broker = new Broker()
  const gate = new Gate()
  const relay = await started(broker, gate)
  await gate.reached()
  await publishAll(root, [message(innocent)])
  await relay.hasRead(innocent)
  await roundTrips()
  expect(broker.calls.map(({ messages }) => messages.map(({ key }) => key))).toEqual([[suspect]])
  gate.open()
  await broker.received(2)
  await outbox.settled()
})

test('O9 a suspect is not tried before all calls that have begun are over', async () => {
  await publishAll(root, [message(innocent), message(suspect)])
  const broker = new Broker()
  const gate = new Gate()
  const relay = await started(broker, gate)
  await gate.reached()
  await relay.hasRead(innocent)
  await relay.hasRead(suspect)
  await roundTrips()
  // Which of the two comes first is open; the other one waits.
  expect(broker.calls.length).toBe(1)
  gate.open()
  await broker.received(2)
  await outbox.settled()
})
