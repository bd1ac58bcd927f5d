import type {
  InspectionStore,
  Lag,
  LocalConsumerFigures,
  OldestDue,
  QueueFigures,
  StatusFigures,
} from '../ports/inspection-store.ts'
import { CachedReading } from './cached-reading.ts'
import type { GaugeName } from './names.ts'
import type { Attributes, Observation, Telemetry } from './telemetry.ts'

/** Only the first consumers and queues by name have gauges. The oldest due messages are found in all consumers and queues. */
const MOST_NAMES = 100
/** Counts stop here, because the figures are read often. */
const COUNT_LIMIT = 100_000

/** The figures of a part are read together. Each part needs privileges of its own: a relay may read `outbox`, a viewer all parts. */
export type ReadPart = 'outbox' | 'oldest' | 'consumers' | 'queues' | 'figures'

/** Returns the observations of one gauge from what was read. */
type Observe<T> = (read: T) => readonly Observation[]

/**
 * Registers the gauges of the tables with a telemetry. The parts are read one after another, on one connection at a time, beginning
 * with how long messages have been due. Each part is read at most every `everyMs` milliseconds.
 *
 * @param failed is called for each reading that fails. The telemetry gets the error too.
 * @returns a function that ends all gauges.
 */
export function observeDatabase(
  telemetry: Telemetry,
  inspection: InspectionStore,
  {
    everyMs,
    failed,
  }: { readonly everyMs: number; readonly failed: (part: ReadPart, error: unknown) => void },
): () => void {
  const ends: (() => void)[] = []
  let turn: Promise<unknown> = Promise.resolve()
  const add = <T>(
    part: ReadPart,
    read: () => Promise<T>,
    gauges: Readonly<Partial<Record<GaugeName, Observe<T>>>>,
  ): void => {
    const reading = new CachedReading(everyMs, () => {
      const own = turn.then(read)
      turn = own.catch((error: unknown) => failed(part, error))
      return own
    })
    for (const [metric, observe] of Object.entries(gauges)) {
      ends.push(telemetry.observe(metric as GaugeName, async () => observe(await reading.get())))
    }
  }
  add('outbox', () => inspection.lag(), OUTBOX)
  add('oldest', () => inspection.oldestOutsideOutbox(), OLDEST)
  add('consumers', () => inspection.localConsumers(MOST_NAMES), CONSUMERS)
  add('queues', () => inspection.queues(MOST_NAMES), QUEUES)
  add('figures', () => inspection.status(COUNT_LIMIT), FIGURES)
  return () => ends.splice(0).forEach((end) => end())
}

const OUTBOX: Readonly<Partial<Record<GaugeName, Observe<Lag>>>> = {
  'txbox.oldest_due.age': ({ oldestDue }) => [seconds(oldestDue?.ageMs)],
  'txbox.outbox.backlog.messages': ({ backlog }) => [one(backlog.count)],
  'txbox.outbox.backlog.age': ({ oldestMs }) => [seconds(oldestMs)],
}

const OLDEST: Readonly<Partial<Record<GaugeName, Observe<readonly OldestDue[]>>>> = {
  'txbox.oldest_due.age': (found) => found.map((oldest) => seconds(oldest.ageMs, placeOf(oldest))),
}

const CONSUMERS: Readonly<Partial<Record<GaugeName, Observe<readonly LocalConsumerFigures[]>>>> = {
  'txbox.oldest_due.age': (all) =>
    all.map(({ name, oldestDue }) => seconds(oldestDue?.ageMs, { consumer: name })),
  'txbox.outbox.backlog.messages': (all) =>
    all.map(({ name, waiting }) => one(waiting.count, { consumer: name })),
  'txbox.outbox.parked.messages': (all) =>
    all.flatMap(({ name, parked, scheduled }) => [
      one(parked.count, { consumer: name, reason: 'retry' }),
      one(scheduled.count, { consumer: name, reason: 'scheduled' }),
    ]),
  'txbox.outbox.dead_letters': (all) => all.map(({ name, dead }) => one(dead.count, { consumer: name })),
}

const QUEUES: Readonly<Partial<Record<GaugeName, Observe<readonly QueueFigures[]>>>> = {
  'txbox.queue.messages': (all) =>
    all.flatMap(({ name, due, waiting, delayed, inFlight, dead }) => [
      one(due.count, { queue: name, state: 'due' }),
      one(waiting.count, { queue: name, state: 'waiting' }),
      one(delayed.count, { queue: name, state: 'delayed' }),
      one(inFlight.count, { queue: name, state: 'in_flight' }),
      one(dead.count, { queue: name, state: 'dead' }),
    ]),
  'txbox.queue.age': (all) => all.map(({ name, oldestMs }) => seconds(oldestMs, { queue: name })),
}

const FIGURES: Readonly<Partial<Record<GaugeName, Observe<StatusFigures>>>> = {
  'txbox.outbox.parked.messages': ({ parked, scheduled }) => [
    one(parked.count, { reason: 'retry' }),
    one(scheduled.count, { reason: 'scheduled' }),
  ],
  'txbox.outbox.dead_letters': ({ dead }) => [one(dead.count)],
  'txbox.inbox.retention.rows': ({ claims }) => [one(claims, { table: 'inbox' })],
}

function placeOf({ in: part, topic, consumer }: OldestDue): Attributes {
  if (consumer !== undefined) return { consumer }
  return part === 'queue' && topic !== undefined ? { queue: topic } : {}
}

function one(value: number, attributes: Attributes = {}): Observation {
  return { value, attributes }
}

/** 0 if there is no such message, so that the gauge is never absent. */
function seconds(ms: number | undefined, attributes: Attributes = {}): Observation {
  return { value: (ms ?? 0) / 1000, attributes }
}
