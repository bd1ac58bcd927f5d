import { decodeHeaders, type BacklogMessage } from '@txbox/core'
import { bytesOf, optionalTextOf, textOf } from './literals.ts'

export type Row = Readonly<Record<string, unknown>>

/** As many as fit, and at least the first. */
export function withinBytes(rows: readonly Row[], bytes: number): readonly Row[] {
  let total = 0
  const end = rows.findIndex(
    (row, index) => (total += Number(textOf(row['payload_bytes']))) > bytes && index > 0,
  )
  return end === -1 ? rows : rows.slice(0, end)
}

/**
 * The messages of rows. `readLarge` fetches a payload that was only measured; a message that has gone in between,
 * because somebody deleted it by hand, is left out.
 */
export async function toMessages(
  rows: readonly Row[],
  shard: number,
  readLarge: (seq: bigint) => Promise<unknown>,
): Promise<readonly BacklogMessage[]> {
  const messages: BacklogMessage[] = []
  for (const row of rows) {
    const payload = row['payload'] ?? (await readLarge(BigInt(textOf(row['seq']))))
    if (payload !== null && payload !== undefined) messages.push(toMessage(row, shard, bytesOf(payload)))
  }
  return messages
}

function toMessage(row: Row, shard: number, payload: Buffer): BacklogMessage {
  const key = optionalTextOf(row['key'])
  return {
    seq: BigInt(textOf(row['seq'])),
    address: undefined,
    shard,
    id: textOf(row['id']),
    topic: textOf(row['topic']),
    key,
    type: optionalTextOf(row['type']),
    contentType: textOf(row['content_type']),
    ...decodeHeaders(textOf(row['headers'])),
    correlationId: optionalTextOf(row['correlation_id']),
    createdAt: dateOf(row['created_at']),
    payload,
    attempts: row['attempts'] === undefined ? 0 : Number(textOf(row['attempts'])),
    ordered: row['ordered'] === undefined ? key !== undefined : textOf(row['ordered']) === '1',
    blocked: (row['blocked'] ?? null) !== null,
  }
}

/** An instant that came back as microseconds. */
export function dateOf(microseconds: unknown): Date {
  return new Date(Math.floor(Number(textOf(microseconds)) / 1000))
}
