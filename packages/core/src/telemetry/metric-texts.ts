import type { CounterName, GaugeName, HistogramName } from './names.ts'

/** The unit of a metric, by the UCUM code of the semantic conventions, and what it measures. */
export interface MetricText {
  /** A unit in braces only says what is counted, and is no part of the name. */
  readonly unit: string
  readonly help: string
}

/** The upper bounds of the buckets of all histograms, by the semantic conventions, in seconds. */
export const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

const COUNTERS: Readonly<Record<CounterName, MetricText>> = {
  'messaging.client.sent.messages': {
    unit: '{message}',
    help: 'Messages that were passed to a broker, also those that it refused.',
  },
  'messaging.client.consumed.messages': {
    unit: '{message}',
    help: 'Messages that were received.',
  },
  'txbox.relay.messages': {
    unit: '{message}',
    help: 'Messages of the outbox, by how the publisher answered.',
  },
  'txbox.relay.leases.lost': { unit: '{shard}', help: 'Shards that a relay had to give away.' },
  'txbox.inbox.messages': { unit: '{message}', help: 'Messages of the inbox, by their outcome.' },
  'txbox.gc.removed.rows': { unit: '{row}', help: 'Rows that the garbage collector has removed.' },
  'txbox.consumer.deliveries': { unit: '{message}', help: 'Deliveries that a consumer has received.' },
  'txbox.consumer.retries': {
    unit: '{message}',
    help: 'Deliveries whose handler failed, and that are tried again.',
  },
  'txbox.consumer.dead_letters': { unit: '{message}', help: 'Deliveries that became dead letters.' },
}

const HISTOGRAMS: Readonly<Record<HistogramName, MetricText>> = {
  'messaging.client.operation.duration': { unit: 's', help: 'Duration of a call of the publisher.' },
  'messaging.process.duration': { unit: 's', help: 'Duration of the handling of a message.' },
  'txbox.relay.latency': {
    unit: 's',
    help: 'Time from the storing of a message until the broker accepted it.',
  },
  'txbox.relay.outage.duration': { unit: 's', help: 'Time during which the publisher was unavailable.' },
  'txbox.gc.duration': { unit: 's', help: 'Duration of a run of the garbage collector.' },
}

const GAUGES: Readonly<Record<GaugeName, MetricText>> = {
  'txbox.oldest_due.age': {
    unit: 's',
    help: 'How long the message has been due that has been due the longest: in the outbox, in the queue, for the local consumer.',
  },
  'txbox.outbox.backlog.messages': {
    unit: '{message}',
    help: 'Messages that wait for a relay, or for a local consumer.',
  },
  'txbox.outbox.backlog.age': { unit: 's', help: 'Age of the oldest of the messages that wait.' },
  'txbox.outbox.parked.messages': {
    unit: '{message}',
    help: 'Messages that wait for another attempt, behind another message of their key, or for their time.',
  },
  'txbox.outbox.dead_letters': {
    unit: '{message}',
    help: 'Dead letters of the outbox, or of a local consumer.',
  },
  'txbox.relay.shards': { unit: '{shard}', help: 'Shards whose lease this relay holds.' },
  // Without a unit, because exporters to Prometheus add `_ratio` to the name of a gauge whose unit is 1.
  'txbox.relay.publisher.up': {
    unit: '',
    help: 'Whether the publisher has accepted the last messages: 1, else 0.',
  },
  'txbox.inbox.retention.rows': { unit: '{row}', help: 'Claims of the inbox; of many, an estimate.' },
  'txbox.consumer.in_flight.messages': {
    unit: '{message}',
    help: 'Messages that a consumer has received and not settled.',
  },
  'txbox.queue.messages': { unit: '{message}', help: 'Messages of a stored queue, by their state.' },
  'txbox.queue.age': {
    unit: 's',
    help: 'How long the oldest message that can be received has been visible.',
  },
}

const TEXTS = { counter: COUNTERS, histogram: HISTOGRAMS, gauge: GAUGES } as const

/**
 * Returns the unit of a metric, and what it measures.
 *
 * @throws {RangeError} for a metric that this version of txbox does not have. A part of txbox may be of another version.
 */
export function metricText(kind: keyof typeof TEXTS, metric: string): MetricText {
  const texts: Readonly<Record<string, MetricText>> = TEXTS[kind]
  if (!Object.hasOwn(texts, metric))
    throw new RangeError(`'${metric}' is no ${kind} of this version of txbox.`)
  return texts[metric]!
}
