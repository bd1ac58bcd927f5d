import { decodeHeaders, type BacklogMessage } from '@txbox/core'

export type Row = Readonly<Record<string, unknown>>

/** As many as fit, and at least the first. */
export function withinBytes(rows: readonly Row[], bytes: number): readonly Row[] {
  let total = 0
  const end = rows.findIndex((row, index) => (total += payloadBytes(row)) > bytes && index > 0)
  return end === -1 ? rows : rows.slice(0, end)
}

/** Of one that came along, the length of its text: as many bytes or more. */
function payloadBytes(row: Row): number {
  return row['payload_bytes'] === null ? (row['payload'] as string).length : Number(row['payload_bytes'])
}

/**
 * The messages of rows. `readLarge` fetches the payloads that were only measured, as hexadecimal; a message that has
 * gone in between, because somebody deleted it by hand, is left out.
 */
export async function toMessages(
  rows: readonly Row[],
  shard: number,
  readLarge: (seqs: readonly string[]) => Promise<readonly Row[]>,
): Promise<readonly BacklogMessage[]> {
  const large = rows.filter((row) => row['payload'] === null).map((row) => row['seq'] as string)
  if (large.length === 0) return rows.map((row) => toMessage(row, shard, unescape(row['payload'] as string)))

  const found = await readLarge(large)
  const payloads = new Map(found.map((row) => [row['seq'], Buffer.from(row['payload'] as string, 'hex')]))
  return rows.flatMap((row) => {
    const escaped = row['payload'] as string | null
    const payload = escaped === null ? payloads.get(row['seq']) : unescape(escaped)
    return payload === undefined ? [] : [toMessage(row, shard, payload)]
  })
}

/** Bytes from PostgreSQL's format 'escape': ASCII as it is, `\\` for a backslash, `\ooo` for anything else. */
function unescape(text: string): Buffer {
  if (!text.includes('\\')) return Buffer.from(text, 'latin1')
  return Buffer.from(
    text.replaceAll(/\\(\\|\d{3})/g, (_, escaped: string) =>
      escaped === '\\' ? escaped : String.fromCharCode(Number.parseInt(escaped, 8)),
    ),
    'latin1',
  )
}

function toMessage(row: Row, shard: number, payload: Buffer): BacklogMessage {
  const text = (name: string): string | undefined => (row[name] as string | null) ?? undefined
  const { headers, undecodable } = decodeHeaders(row['headers'] as string)
  return {
    seq: BigInt(row['seq'] as string),
    shard,
    id: row['id'] as string,
    topic: row['topic'] as string,
    key: text('key'),
    type: text('type'),
    contentType: row['content_type'] as string,
    headers,
    correlationId: text('correlation_id'),
    createdAt: new Date(Number(row['created_at'])),
    payload,
    attempts: row['attempts'] === undefined ? 0 : Number(row['attempts']),
    ordered: row['ordered'] === undefined ? row['key'] !== null : row['ordered'] === 'true',
    blocked: row['blocked'] === 'true',
    undecodable,
  }
}
