import type { Publisher, Source } from '@txbox/core'
import type { HandClient, HandRow } from '../postgres/relay-by-hand.ts'

/** A kind of broker that can be measured. */
export interface BenchBroker {
  readonly name: string
  /** The number of messages of a drain: as many as take a second or two. */
  readonly messages: number
  /** The environment variable with the address of the broker. */
  readonly variable: string
  /** Connects, and creates a destination for this run only. `undefined` if no broker is there. */
  open(): Promise<OpenBroker | undefined>
}

/** A broker with a destination, which is a topic, a queue or a stream. */
export interface OpenBroker {
  /** The topic that leads messages to the destination, for a publisher that cannot map topics. */
  readonly topic?: string
  /** Empties the destination, or replaces it by an empty one. */
  empty(): Promise<void>
  /** The number of messages in the destination; `undefined` if the broker knows no exact number. */
  count(): Promise<number | undefined>
  /** A new publisher of txbox, which publishes every message to the destination. */
  publisher(): Publisher
  /**
   * The client of the same publisher, used by hand: it publishes all rows at the same time with confirms, with the fields of the publisher,
   * and without retries.
   */
  client(): Promise<HandClient>
  /** Whether the client keeps the order of a key itself, because the broker stores what it sends together as a whole or not at all. */
  readonly clientKeepsOrder?: boolean
  /** A new source of txbox for the messages in the destination. A broker without a source has none. */
  source?(): Source
  /** Receives this many messages by the bare client, and acknowledges each; resolves when the broker has processed that. */
  receiveBare?(messages: number): Promise<void>
  /**
   * Receives this many messages by the bare client, and does what the source and the consumer do: reads the fields, awaits a handler for
   * each message, one after the other for each key, and acknowledges a message when its handler has ended.
   */
  receiveLikeSource?(messages: number): Promise<void>
  /** Removes the destination, and disconnects. */
  dispose(): Promise<void>
}

/** How many deliveries the consumers of all brokers hold. */
export const PREFETCH = 100

/** The fields of a message as a loop by hand sends them beside the payload. */
export function fieldsOf({
  id,
  key,
  type,
  content_type,
  created_at,
  headers,
}: HandRow): Readonly<Record<string, string>> {
  return {
    ...headersOf(headers),
    'txbox-id': id,
    'content-type': content_type,
    'txbox-time': created_at.toISOString(),
    ...(key === null ? {} : { 'txbox-key': key }),
    ...(type === null ? {} : { 'txbox-type': type }),
  }
}

/** Reads the headers of a row, which are a JSON object of texts. */
export function headersOf(json: string): Readonly<Record<string, string>> {
  return JSON.parse(json) as Record<string, string>
}
