/*
 * The names of OpenTelemetry's semantic conventions 1.45, whose messaging part is still in development, and names of txbox
 * itself, which begin with `txbox.`. A minor release of txbox may change the names of the conventions until these are stable.
 */

/**
 * The names of the attributes of spans, and of metrics of the conventions. Metrics that begin with `txbox.` have attributes of one
 * word, such as `consumer`, `queue`, `outcome` and `reason`.
 */
export const ATTRIBUTES = {
  system: 'messaging.system.name',
  operationType: 'messaging.operation.type',
  operationName: 'messaging.operation.name',
  destination: 'messaging.destination.name',
  messageId: 'messaging.message.id',
  conversationId: 'messaging.message.conversation_id',
  consumerGroup: 'messaging.consumer.group.name',
  batchMessages: 'messaging.batch.message_count',
  kafkaMessageKey: 'kafka.message.key',
  rabbitmqRoutingKey: 'rabbitmq.destination.routing_key',
  serverAddress: 'server.address',
  serverPort: 'server.port',
  errorType: 'error.type',
  inboxOutcome: 'txbox.inbox.outcome',
  httpMethod: 'http.request.method',
  httpRoute: 'http.route',
  httpStatus: 'http.response.status_code',
  requestOutcome: 'txbox.request.outcome',
} as const

/** The counters, which only grow. */
export type CounterName =
  | 'messaging.client.sent.messages'
  | 'messaging.client.consumed.messages'
  | 'txbox.relay.messages'
  | 'txbox.relay.leases.lost'
  | 'txbox.inbox.messages'
  | 'txbox.gc.removed.rows'
  | 'txbox.consumer.deliveries'
  | 'txbox.consumer.retries'
  | 'txbox.consumer.dead_letters'

/** The histograms of durations, all in seconds. */
export type HistogramName =
  | 'messaging.client.operation.duration'
  | 'messaging.process.duration'
  | 'txbox.relay.latency'
  | 'txbox.relay.outage.duration'
  | 'txbox.gc.duration'

/** A gauge whose name ends with `.age` is in seconds; the others are numbers. */
export type GaugeName =
  | 'txbox.oldest_due.age'
  | 'txbox.outbox.backlog.messages'
  | 'txbox.outbox.backlog.age'
  | 'txbox.outbox.parked.messages'
  | 'txbox.outbox.dead_letters'
  | 'txbox.relay.shards'
  | 'txbox.relay.publisher.up'
  | 'txbox.inbox.retention.rows'
  | 'txbox.consumer.in_flight.messages'
  | 'txbox.queue.messages'
  | 'txbox.queue.age'
