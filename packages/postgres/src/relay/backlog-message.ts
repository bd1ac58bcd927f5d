/*
 * PostgreSQL returns a message as columns of text; MySQL and MariaDB return one binary value that contains all of its
 * fields.
 */
import type { BacklogMessage } from '@txbox/core/ports'
import { decodeHeaders } from '@txbox/core/internal'
import { toStamp, withinBytes, type Row } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { COMMON } from './backlog-statements.ts'

/**
 * Converts rows to messages: as many as fit into the limit in bytes, and at least the first. Payloads that the read
 * only measured are fetched by `readLarge`, in hexadecimal. A message that was deleted by hand in between is skipped.
 */
export async function toMessages(
  rows: readonly Row[],
  shard: number,
  mostBytes: number,
  readLarge: (seqs: readonly string[], stamps: readonly number[]) => Promise<readonly Row[]>,
): Promise<readonly BacklogMessage[]> {
  // A read returns payloads only up to a size at which all of them fit.
  if (!rows.some(isLarge)) return rows.map((row) => toMessage(row, shard, escapedPayload(row)))

  const fitting = withinBytes(rows, mostBytes, bytesOf)
  const large = fitting.filter(isLarge)
  const found =
    large.length === 0
      ? []
      : await readLarge(
          large.map((row) => columns.text(row, 'seq')),
          large.map(stampOf),
        )
  const payloads = new Map(
    found.map((row) => [columns.text(row, 'seq'), Buffer.from(columns.text(row, 'payload'), 'hex')]),
  )
  return fitting.flatMap((row) => {
    const payload = isLarge(row) ? payloads.get(columns.text(row, 'seq')) : escapedPayload(row)
    return payload === undefined ? [] : [toMessage(row, shard, payload)]
  })
}

/** Returns the time of `outbox.publish`, in microseconds since 1970. */
export function stampOf(row: Row): number {
  return toStamp(columns.number(row, 'stamp'))
}

/** Returns whether the read only measured the payload, because it is large. */
export function isLarge(row: Row): boolean {
  return columns.has(row, 'payload_bytes')
}

function bytesOf(row: Row): number {
  return isLarge(row) ? columns.number(row, 'payload_bytes') : escapedPayload(row).length
}

function escapedPayload(row: Row): Buffer {
  return unescapeBytes(columns.text(row, 'payload'))
}

const BACKSLASH = 0x5c
const ZERO = 0x30

/**
 * Decodes PostgreSQL's format 'escape': ASCII is unchanged, `\\` is a backslash, `\ooo` is any other byte. Works byte
 * by byte: `replace` with a function takes at least ten times as long for bytes that are not ASCII.
 */
export function unescapeBytes(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  let from = bytes.indexOf(BACKSLASH)
  if (from < 0) return bytes
  let to = from
  while (from < bytes.length) {
    const byte = bytes[from]!
    if (byte !== BACKSLASH || bytes[from + 1] === BACKSLASH) {
      bytes[to++] = byte
      from += byte === BACKSLASH ? 2 : 1
    } else {
      const high = ((bytes[from + 1]! - ZERO) << 6) | ((bytes[from + 2]! - ZERO) << 3)
      bytes[to++] = high | (bytes[from + 3]! - ZERO)
      from += 4
    }
  }
  return Buffer.from(bytes.subarray(0, to))
}

/** Converts `(block,offset)` to one number: the offset has 16 bits, the block 32. */
function addressOf(tid: string): number {
  const [block, offset] = tid.slice(1, -1).split(',').map(Number)
  return block! * 0x1_0000 + offset!
}

/** A message with the physical position of its row at the time of the read. Only rows of the outbox have a position. */
export interface LocatedMessage extends BacklogMessage {
  readonly address: number | undefined
}

function toMessage(row: Row, shard: number, payload: Buffer): LocatedMessage {
  const text = (name: string): string | undefined => columns.optionalText(row, name)
  const address = text('address')
  const { headers, undecodable } = decodeHeaders(text('headers') ?? COMMON.headers, text('trace_context'))
  return {
    seq: columns.bigint(row, 'seq'),
    stamp: stampOf(row),
    address: address === undefined ? undefined : addressOf(address),
    shard,
    id: columns.text(row, 'id'),
    topic: columns.text(row, 'topic'),
    key: text('key'),
    type: text('type'),
    contentType: text('content_type') ?? COMMON.contentType,
    headers,
    correlationId: text('correlation_id'),
    createdAt: new Date(Math.floor(columns.number(row, 'stamp') / 1000)),
    payload,
    attempts: Number(text('attempts') ?? 0),
    errors: text('errors'),
    ordered: columns.has(row, 'ordered') ? columns.flag(row, 'ordered') : columns.has(row, 'key'),
    blocked: columns.flag(row, 'blocked'),
    undecodable,
  }
}
