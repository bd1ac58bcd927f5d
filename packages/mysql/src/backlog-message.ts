/* MySQL and MariaDB return one value of bytes with all fields of a message; PostgreSQL returns columns of text. */
import { decodeHeaders, type BacklogMessage } from '@txbox/core'
import { toStamp, type Row } from '@txbox/sql'
import { bytesOf, optionalTextOf, textOf } from './literals.ts'

/** A row with a message, as `messageColumns` asks for it. */
export interface StoredMessage {
  readonly row: Row
  readonly seq: bigint
  readonly payloadBytes: number
  /** When the message was published, in microseconds since 1970; as a stamp, clamped to the instants where that is exact. */
  readonly microseconds: number
  readonly stamp: number
  readonly id: string
  readonly topic: string
  readonly contentType: string
  readonly headers: string
  readonly key: string | undefined
  readonly type: string | undefined
  readonly correlationId: string | undefined
}

export function toStored(row: Row): StoredMessage {
  const [seq, payloadBytes, stamp, id, topic, contentType, headers, key, type, correlationId] = fieldsOf(
    row['fields'],
  ) as [string, string, string, string, string, string, string, string, string, string]
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
  }
}

/**
 * The messages with their payloads. `readLarge` fetches one that was only measured; a message that has gone in between,
 * because somebody deleted it by hand, is left out.
 */
export async function toMessages(
  stored: readonly StoredMessage[],
  shard: number,
  readLarge: (message: StoredMessage) => Promise<unknown>,
): Promise<readonly BacklogMessage[]> {
  const messages: BacklogMessage[] = []
  for (const one of stored) {
    const payload = one.row['payload'] ?? (await readLarge(one))
    if (payload !== null && payload !== undefined) messages.push(toMessage(one, shard, bytesOf(payload)))
  }
  return messages
}

function toMessage(stored: StoredMessage, shard: number, payload: Buffer): BacklogMessage {
  const { row, seq, id, topic, key, type, contentType, headers, correlationId, stamp, microseconds } = stored
  return {
    seq,
    stamp,
    address: undefined,
    shard,
    id,
    topic,
    key,
    type,
    contentType,
    ...decodeHeaders(headers),
    correlationId,
    createdAt: new Date(Math.floor(microseconds / 1000)),
    payload,
    attempts: row['attempts'] === undefined ? 0 : Number(textOf(row['attempts'])),
    errors: optionalTextOf(row['errors']),
    ordered: row['ordered'] === undefined ? key !== undefined : textOf(row['ordered']) === '1',
    blocked: (row['blocked'] ?? null) !== null,
  }
}

/** One decoding for all of them, where they are ASCII. */
function fieldsOf(value: unknown): readonly string[] {
  const fields = bytesOf(value).toString('latin1')
  const split = fields.split('\xff')
  return /[\x80-\xfe]/.test(fields) ? split.map((field) => Buffer.from(field, 'latin1').toString()) : split
}

function optional(field: string): string | undefined {
  return field === '' ? undefined : field.slice(1)
}
