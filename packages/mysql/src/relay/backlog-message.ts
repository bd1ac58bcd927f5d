/*
 * MySQL and MariaDB return one binary value that contains all fields of a message; PostgreSQL returns columns of text.
 */
import type { BacklogMessage } from '@txbox/core/ports'
import { decodeHeaders } from '@txbox/core/internal'
import { toStamp, type Row } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { bytesOf } from '../connection/literals.ts'

/** A row with a message, as `messageColumns` reads it. */
export interface MessageRow {
  readonly row: Row
  readonly seq: bigint
  readonly payloadBytes: number
  /**
   * The time of `outbox.publish` in microseconds since 1970. Like a stamp, it is clamped to the range in which numbers
   * are exact.
   */
  readonly microseconds: number
  readonly stamp: number
  readonly id: string
  readonly topic: string
  readonly contentType: string
  readonly headers: string
  readonly key: string | undefined
  readonly type: string | undefined
  readonly correlationId: string | undefined
  readonly traceContext: string | undefined
}

/** The fields in the order of `messageColumns`. */
type Fields = readonly [
  seq: string,
  payloadBytes: string,
  stamp: string,
  id: string,
  topic: string,
  contentType: string,
  headers: string,
  key: string,
  type: string,
  correlationId: string,
  traceContext: string,
]

export function toMessageRow(row: Row): MessageRow {
  const [seq, payloadBytes, stamp, id, topic, contentType, headers, key, type, correlationId, traceContext] =
    fieldsOf(row['fields']) as Fields
  return {
    row,
    seq: BigInt(seq),
    payloadBytes: Number(payloadBytes),
    microseconds: Number(stamp),
    stamp: toStamp(Number(stamp)),
    id,
    topic,
    contentType,
    headers,
    key: optional(key),
    type: optional(type),
    correlationId: optional(correlationId),
    traceContext: optional(traceContext),
  }
}

/**
 * Returns the messages with their payloads. A payload that the read only measured is fetched by `readLarge`. A message
 * that was deleted by hand in between is skipped.
 */
export async function toMessages(
  stored: readonly MessageRow[],
  shard: number,
  readLarge: (message: MessageRow) => Promise<unknown>,
): Promise<readonly BacklogMessage[]> {
  const messages: BacklogMessage[] = []
  for (const one of stored) {
    const payload = one.row['payload'] ?? (await readLarge(one))
    if (payload !== null && payload !== undefined) messages.push(toMessage(one, shard, bytesOf(payload)))
  }
  return messages
}

function toMessage(stored: MessageRow, shard: number, payload: Buffer): BacklogMessage {
  const { row, seq, id, topic, key, type, contentType, headers, correlationId, stamp, microseconds } = stored
  return {
    seq,
    stamp,
    shard,
    id,
    topic,
    key,
    type,
    contentType,
    ...decodeHeaders(headers, stored.traceContext),
    correlationId,
    createdAt: new Date(Math.floor(microseconds / 1000)),
    payload,
    attempts: Number(columns.optionalText(row, 'attempts') ?? 0),
    errors: columns.optionalText(row, 'errors'),
    ordered: columns.has(row, 'ordered') ? columns.flag(row, 'ordered') : key !== undefined,
    blocked: columns.has(row, 'blocked'),
  }
}

/** Decodes the fields, all at once if they are ASCII. */
function fieldsOf(value: unknown): readonly string[] {
  const fields = bytesOf(value).toString('latin1')
  const split = fields.split('\xff')
  return /[\x80-\xfe]/.test(fields) ? split.map((field) => Buffer.from(field, 'latin1').toString()) : split
}

/** Returns an optional field, which begins with `=` if it is present. */
export function optional(field: string): string | undefined {
  return field === '' ? undefined : field.slice(1)
}
