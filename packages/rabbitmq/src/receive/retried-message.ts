import type { ConsumeMessage, Options } from 'amqplib'

/** What a message keeps in headers while it waits in a retry queue, and gets back before anything reads its delivery. */
const EXCHANGE = 'txbox-retry-exchange'
const ROUTING_KEY = 'txbox-retry-routing-key'
const EXPIRATION = 'txbox-retry-expiration'
/** The number of deliveries that count, up to the move to the retry queue. */
const DELIVERIES = 'txbox-retry-deliveries'
/** The rest of the delay, for a delay that is longer than that of the retry queue. */
const REST = 'txbox-retry-rest-ms'
/** The prefix of the original headers that RabbitMQ would obey, count in, or replace. */
const KEPT = 'txbox-retry-header-'

/**
 * The headers that are not sent. RabbitMQ routes to the queues in `CC` and `BCC`; it would count on from the two counts; and
 * before 4.0 it drops a message that comes back to a queue which `x-death` names.
 */
const NOT_SENT = /^(CC|BCC|x-delivery-count|x-acquired-count|x-(first-|last-)?death(-.*)?)$/

/** The headers of `NOT_SENT` that the message gets back. The counts are the queue's own, and begin again. */
const RESTORED = /^(CC|BCC|x-(first-|last-)?death(-.*)?)$/

type Headers = Record<string, unknown>

/** How a message comes to a retry queue. */
export interface RetryCourse {
  readonly deliveries: number
  readonly restMs: number
}

/** A message as it was received first. */
export interface RestoredMessage {
  readonly raw: ConsumeMessage
  /** The number of deliveries that count, before the message came to this queue again. 0 if it came from no retry queue. */
  readonly earlierDeliveries: number
  /** How much longer the message must wait, in ms. */
  readonly restMs: number
}

/**
 * Returns the properties with which a message is published to a retry queue.
 *
 * @param raw the message as it was received first.
 * @param user the user of the connection: RabbitMQ refuses the name of another user.
 */
export function retryProperties(
  { fields, properties }: ConsumeMessage,
  user: string,
  course: RetryCourse,
): Options.Publish {
  const { expiration, userId, deliveryMode: _, clusterId: __, ...others } = properties
  const headers: Headers = {}
  for (const [name, value] of Object.entries(properties.headers ?? {})) {
    if (name.startsWith('txbox-retry-')) continue
    if (!NOT_SENT.test(name)) headers[name] = value
    else if (RESTORED.test(name)) headers[KEPT + name] = value
  }
  headers[EXCHANGE] = fields.exchange
  headers[ROUTING_KEY] = fields.routingKey
  headers[DELIVERIES] = course.deliveries
  if (course.restMs > 0) headers[REST] = course.restMs
  if (expiration !== undefined) headers[EXPIRATION] = expiration
  return { ...others, ...(userId === user ? { userId } : {}), headers }
}

/**
 * Restores a message that has come back from a retry queue. A message that says so, but did not expire in a retry queue of this
 * queue, counts no deliveries, because its producer may have written the headers.
 *
 * @param isRetryQueue whether this is the name of a retry queue of the queue.
 */
export function restoredMessage(
  raw: ConsumeMessage,
  isRetryQueue: (name: unknown) => boolean,
): RestoredMessage {
  const received = raw.properties.headers
  if (received?.[ROUTING_KEY] === undefined) return { raw, earlierDeliveries: 0, restMs: 0 }
  const isExpired = hasExpiredIn(received['x-death'], isRetryQueue)
  const headers: Headers = {}
  for (const [name, value] of Object.entries(received)) {
    if (name.startsWith(KEPT)) headers[name.slice(KEPT.length)] = value
    // The headers that begin with `x-` and have no `txbox-retry-` before them are those of the retry queue.
    else if (!name.startsWith('txbox-retry-') && !(isExpired && RESTORED.test(name))) headers[name] ??= value
  }
  const exchange: unknown = received[EXCHANGE]
  const routingKey: unknown = received[ROUTING_KEY]
  const expiration: unknown = received[EXPIRATION]
  return {
    raw: {
      ...raw,
      fields: {
        ...raw.fields,
        exchange: typeof exchange === 'string' ? exchange : raw.fields.exchange,
        routingKey: typeof routingKey === 'string' ? routingKey : raw.fields.routingKey,
      },
      properties: {
        ...raw.properties,
        headers,
        ...(typeof expiration === 'string' ? { expiration } : {}),
      },
    },
    earlierDeliveries: isExpired ? countOf(received[DELIVERIES]) : 0,
    restMs: isExpired ? countOf(received[REST]) : 0,
  }
}

function hasExpiredIn(deaths: unknown, isRetryQueue: (name: unknown) => boolean): boolean {
  const [latest] = (Array.isArray(deaths) ? deaths : []) as ({ queue?: unknown; reason?: unknown } | null)[]
  return latest?.reason === 'expired' && isRetryQueue(latest.queue)
}

/** @returns 0 if the header is not a positive whole number. */
function countOf(header: unknown): number {
  const count = Number(header)
  return Number.isSafeInteger(count) && count > 0 ? count : 0
}
