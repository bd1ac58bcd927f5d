import type {
  InspectionStore,
  Lag,
  LocalConsumerFigures,
  OldestDue,
  ParkedFigures,
  QueueFigures,
  StatusFigures,
} from '../ports/inspection-store.ts'
import type { GaugeName } from '../telemetry/names.ts'
import type { Attributes, Observation } from '../telemetry/telemetry.ts'

/** Only the first consumers and queues by name have gauges. The oldest due messages are found in all consumers and queues. */
const MOST_NAMES = 100
/** Counts stop here, because the figures are read often. */
const COUNT_LIMIT = 100_000

/** The observations of some gauges. */
export type Observations = ReadonlyMap<GaugeName, readonly Observation[]>

/** Gauges that are read together. Each part needs privileges of its own: a relay may read `outbox`, a viewer all parts. */
export interface GaugePart {
  readonly name: 'outbox' | 'oldest' | 'consumers' | 'queues' | 'figures'
  /** The subject of the metrics of this part, which completes the sentence "The metrics of … cannot be read". */
  readonly subject: string
  readonly metrics: readonly GaugeName[]
  read(inspection: InspectionStore): Promise<Observations>
}

/** Returns the observations of one gauge from the result of a reading. */
type Observe<T> = (read: T) => readonly Observation[]

type Observers<T> = Readonly<Partial<Record<GaugeName, Observe<T>>>>

function part<T>(
  { name, subject }: Pick<GaugePart, 'name' | 'subject'>,
  read: (inspection: InspectionStore) => Promise<T>,
  observers: Observers<T>,
): GaugePart {
  const all = Object.entries(observers) as [GaugeName, Observe<T>][]
  return {
    name,
    subject,
    metrics: all.map(([metric]) => metric),
    async read(inspection) {
      const found = await read(inspection)
      return new Map(all.map(([metric, observe]) => [metric, observe(found)]))
    },
  }
}

const OUTBOX: Observers<Lag> = {
  'txbox.oldest_due.age': ({ oldestDue }) => [seconds(oldestDue?.ageMs)],
  'txbox.outbox.backlog.messages': ({ backlog }) => [one(backlog.count)],
  'txbox.outbox.backlog.age': ({ oldestMs }) => [seconds(oldestMs)],
}

const OLDEST: Observers<readonly OldestDue[]> = {
  'txbox.oldest_due.age': (found) => found.map((oldest) => seconds(oldest.ageMs, placeOf(oldest))),
}

const CONSUMERS: Observers<readonly LocalConsumerFigures[]> = {
  'txbox.oldest_due.age': (all) =>
    all.map(({ name, oldestDue }) => seconds(oldestDue?.ageMs, { consumer: name })),
  'txbox.outbox.backlog.messages': (all) =>
    all.map(({ name, waiting }) => one(waiting.count, { consumer: name })),
  'txbox.outbox.backlog.age': (all) => all.map(({ name, oldestMs }) => seconds(oldestMs, { consumer: name })),
  'txbox.outbox.parked.messages': (all) =>
    all.flatMap((figures) => parkedByReason(figures, { consumer: figures.name })),
  'txbox.outbox.dead_letters': (all) => all.map(({ name, dead }) => one(dead.count, { consumer: name })),
}

const QUEUES: Observers<readonly QueueFigures[]> = {
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

const FIGURES: Observers<StatusFigures> = {
  'txbox.outbox.parked.messages': (figures) => parkedByReason(figures),
  'txbox.outbox.dead_letters': ({ dead }) => [one(dead.count)],
  'txbox.inbox.retention.rows': ({ claims }) => [one(claims, { table: 'inbox' })],
}

/** All parts. The parts that report how long messages have been due come first. */
export const GAUGE_PARTS: readonly GaugePart[] = [
  part({ name: 'outbox', subject: 'the outbox' }, (inspection) => inspection.lag(), OUTBOX),
  part(
    {
      name: 'oldest',
      subject: 'the messages that have been due the longest in queues and for local consumers',
    },
    (inspection) => inspection.oldestOutsideOutbox(),
    OLDEST,
  ),
  part(
    { name: 'consumers', subject: 'the local consumers' },
    (inspection) => inspection.localConsumers(MOST_NAMES),
    CONSUMERS,
  ),
  part(
    { name: 'queues', subject: 'the stored queues' },
    (inspection) => inspection.queues(MOST_NAMES),
    QUEUES,
  ),
  part(
    { name: 'figures', subject: 'parked messages, dead letters and the inbox' },
    (inspection) => inspection.status(COUNT_LIMIT),
    FIGURES,
  ),
]

/** The names of all gauges of these parts, each once. */
export const GAUGES_OF_TABLES: readonly GaugeName[] = [
  ...new Set(GAUGE_PARTS.flatMap(({ metrics }) => metrics)),
]

function placeOf({ in: part, topic, consumer }: OldestDue): Attributes {
  if (consumer !== undefined) return { consumer }
  return part === 'queue' && topic !== undefined ? { queue: topic } : {}
}

function parkedByReason(
  { refused, behind, scheduled }: ParkedFigures,
  attributes: Attributes = {},
): readonly Observation[] {
  return [
    one(refused.count, { ...attributes, reason: 'retry' }),
    one(behind.count, { ...attributes, reason: 'key' }),
    one(scheduled.count, { ...attributes, reason: 'scheduled' }),
  ]
}

function one(value: number, attributes: Attributes = {}): Observation {
  return { value, attributes }
}

/** 0 if there is no such message, so that the gauge is never absent. */
function seconds(ms: number | undefined, attributes: Attributes = {}): Observation {
  return { value: (ms ?? 0) / 1000, attributes }
}
