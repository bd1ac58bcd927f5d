import { Broker, Gate, holding } from '../worlds/broker.ts'
import { RelayUnderTest } from './relay-under-test.ts'
import type { Root } from '../engines/target.ts'

/** Starts a relay that takes all shards, hangs in its first calls, and is cut off there. */
export async function cutOffRelay(
  root: Root,
  calls: number,
  options: { batchSize?: number } = {},
): Promise<Broker> {
  const broker = new Broker()
  const gate = new Gate()
  const publisher = broker.publisher({ ordering: 'per-key', respond: holding(gate) })
  const subject = await RelayUnderTest.started(root, publisher, options)
  await gate.reached(calls)
  await subject.relay.stop({ timeoutMs: 300 })
  return broker
}
