/** JetStream drops a message with a value of this header that the stream has taken a short time before, whatever its subject is. */
export const DEDUPLICATION_HEADER = 'Nats-Msg-Id'

/** JetStream refuses a message whose subject belongs to another stream than this header names. */
export const STREAM_HEADER = 'Nats-Expected-Stream'

/** The headers that carry fields of a message, as in every package of txbox. */
export const WIRE_HEADERS = {
  id: 'txbox-id',
  type: 'txbox-type',
  key: 'txbox-key',
  correlationId: 'txbox-correlation-id',
  contentType: 'content-type',
  contentEncoding: 'content-encoding',
  time: 'txbox-time',
} as const

/** Whether a server obeys the header, or has added it: `Nats-Rollup`, for example, deletes what the stream holds. */
export function isServerHeader(name: string): boolean {
  return /^nats-/i.test(name)
}
