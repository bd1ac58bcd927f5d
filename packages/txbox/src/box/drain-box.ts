import type { LocalConsumer } from '@txbox/consumer'
import type { ConnectedPorts } from '@txbox/core/ports'
import { untilTime } from '@txbox/core/internal'
import type { BoxParts } from './box-parts.ts'
import type { TxboxDrained } from './txbox.ts'

/** How long after the deadline the messages that are left in the outbox may be counted. */
const COUNT_GRACE_MS = 1000

/** Drains the consumers and the relay of a box, again and again until nothing new is due, or the deadline has come. */
export async function drainBox(
  { consumers, relay }: Pick<BoxParts, 'consumers' | 'relay'>,
  ports: ConnectedPorts,
  endsAt: number,
): Promise<TxboxDrained> {
  const names = Object.keys(consumers)
  const ofConsumers = new Map(names.map((name) => [name, { handled: 0, left: 0 }]))
  const sum = { handled: 0, published: 0, parked: 0, deadLettered: 0 }
  for (
    let isFirst = true, moved = 1;
    moved > 0 && (isFirst || endsAt - performance.now() > 1);
    isFirst = false
  ) {
    const leftMs = Math.max(1, endsAt - performance.now())
    const how = leftMs === Infinity ? {} : { deadlineMs: leftMs }
    const [relayed, ...drained] = await allOf([
      relay?.drain(how) ?? Promise.resolve({ published: 0, parked: 0, deadLettered: 0 }),
      ...Object.values(consumers).map((consumer: LocalConsumer) => consumer.drain(how)),
    ] as const)
    moved = relayed.published
    sum.published += relayed.published
    for (const { parked, deadLettered } of [relayed, ...drained]) {
      sum.parked += parked
      sum.deadLettered += deadLettered
    }
    for (const [n, { handled, left }] of drained.entries()) {
      const before = ofConsumers.get(names[n]!)!
      ofConsumers.set(names[n]!, { handled: before.handled + handled, left })
      sum.handled += handled
      moved += handled
    }
  }
  const lefts = [...ofConsumers.values()].map(({ left }) => left)
  const inOutbox =
    relay === undefined || endsAt === Infinity
      ? 0
      : await untilTime(dueInOutbox(ports), endsAt + COUNT_GRACE_MS, () => Number.NaN)
  const left = lefts.reduce((total, each) => total + each, inOutbox)
  return { ...sum, left, consumers: Object.fromEntries(ofConsumers) }
}

async function dueInOutbox(ports: ConnectedPorts): Promise<number> {
  const { backlog, parked } = await ports.inspection().lag()
  return backlog.count + parked.count
}

/** Waits for all of them, also if one rejects: what runs must not outlive the call. */
async function allOf<T extends readonly Promise<unknown>[]>(
  running: T,
): Promise<{ [K in keyof T]: Awaited<T[K]> }> {
  const settled = await Promise.allSettled(running)
  return settled.map((each) => {
    if (each.status === 'rejected') throw each.reason
    return each.value
  }) as { [K in keyof T]: Awaited<T[K]> }
}
