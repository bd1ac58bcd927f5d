/*
 * PostgreSQL returns a message as columns of text; MySQL and MariaDB return one binary value that contains all of its
 * fields.
 */
import type { QueueMessage } from '@txbox/core/ports'
import { decodeHeaders } from '@txbox/core/internal'
import { isSuspect, type QueueCandidate, type Row } from '@txbox/sql/stores'
import { stampOf, unescapeBytes } from '../relay/backlog-message.ts'
import { columns } from '../connection/columns.ts'
import { COMMON } from '../relay/backlog-statements.ts'

/** Reads a row of `candidates`. */
export function candidateOf(row: Row): QueueCandidate {
  return {
    place: columns.text(row, 'place'),
    orderKey: columns.optionalText(row, 'order_key'),
    receives: columns.number(row, 'attempts'),
    timeouts: columns.number(row, 'timeouts'),
    first: columns.optionalText(row, 'first'),
    flight: columns.optionalText(row, 'flight'),
    isFlightLive: columns.flag(row, 'live'),
    bytes: columns.number(row, 'bytes'),
  }
}

/** Reads a message that has become a dead letter: it has no receipt, and never becomes visible. */
export function buriedOf(row: Row, maxReceives: number): QueueMessage {
  return receivedOf({ ...row, due_us: '0' }, '', maxReceives)
}

/** Reads a row with the columns of a received message. */
export function receivedOf(row: Row, receipt: string, maxReceives: number): QueueMessage {
  const text = (name: string): string | undefined => columns.optionalText(row, name)
  const { headers, undecodable } = decodeHeaders(text('headers') ?? COMMON.headers, text('trace_context'))
  return {
    place: columns.bigint(row, 'place'),
    receipt,
    ordered: columns.flag(row, 'ordered'),
    receives: columns.number(row, 'attempts'),
    suspect: isSuspect({ timeouts: columns.number(row, 'timeouts') }, maxReceives),
    createdAt: new Date(Math.floor(stampOf(row) / 1000)),
    visibleAt: new Date(Math.floor(columns.number(row, 'due_us') / 1000)),
    shard: columns.number(row, 'shard'),
    id: columns.text(row, 'id'),
    topic: columns.text(row, 'topic'),
    key: text('key'),
    type: text('type'),
    contentType: text('content_type') ?? COMMON.contentType,
    headers,
    correlationId: text('correlation_id'),
    payload: unescapeBytes(columns.text(row, 'payload')),
    undecodable,
  }
}
