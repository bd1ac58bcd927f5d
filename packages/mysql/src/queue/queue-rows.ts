/*
 * MySQL and MariaDB return one binary value that contains all fields of a message, and binary receipts; PostgreSQL
 * returns columns of text.
 */
import type { QueueReceipt, QueueMessage } from '@txbox/core/ports'
import { decodeHeaders } from '@txbox/core/internal'
import { NEVER_ANSWERED, isSuspect, type Row } from '@txbox/sql/stores'
import { toMessageRow } from '../relay/backlog-message.ts'
import { columns, placeOf } from '../connection/columns.ts'
import type { queueReceiveStatements } from './queue-receive-statements.ts'
import type { Run } from '../connection/short-transaction.ts'
import { bytesOf, fill, json, type Value } from '../connection/literals.ts'

/** A maximum size of payloads that every payload of the table meets. */
const ANY_SIZE = 4_294_967_295

function toReceived(row: Row, receipt: string, maxReceives: number): QueueMessage {
  const stored = toMessageRow(row)
  const { seq, microseconds, id, topic, key, type, contentType, headers, correlationId } = stored
  return {
    place: seq,
    receipt,
    ordered: columns.flag(row, 'ordered'),
    id,
    shard: columns.number(row, 'shard'),
    topic,
    key,
    type,
    contentType,
    ...decodeHeaders(headers, stored.traceContext),
    correlationId,
    payload: bytesOf(row['payload']),
    receives: columns.number(row, 'attempts'),
    createdAt: new Date(Math.floor(microseconds / 1000)),
    visibleAt: columns.date(row, 'due_us'),
    suspect: isSuspect({ timeouts: columns.number(row, 'timeouts') }, maxReceives),
  }
}

export function uuidBytes(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex')
}

/**
 * Returns the places of the receipts, the pairs of place and receipt that are inserted into the text of a statement, and
 * the queue.
 *
 * @param receipts at least one.
 */
export function pairsOf(
  pair: string,
  receipts: readonly QueueReceipt[],
): { readonly pairs: readonly string[]; readonly places: readonly Value[]; readonly queue: Value } {
  return {
    pairs: receipts.map(({ place, receipt }) => fill(pair, [place, uuidBytes(receipt)])),
    places: receipts.map(({ place }) => place),
    queue: { utf8: receipts[0]!.topic },
  }
}

/** In hexadecimal. */
export function keyOf(row: Row): string | undefined {
  return columns.optionalText(row, 'order_key')
}

type Statements = ReturnType<typeof queueReceiveStatements>

/** Returns the rows that no other transaction has locked. */
export async function lockRows(
  run: Run,
  { lock }: Statements,
  places: readonly string[],
): Promise<readonly Row[]> {
  return (await run(lock, [json(places)])).rows
}

export interface Buried {
  readonly message: QueueMessage
  readonly error: string
}

/** Reads messages that this transaction has locked, before they become dead letters. */
export async function readBuried(
  run: Run,
  sql: Statements,
  places: readonly string[],
  maxReceives: number,
): Promise<readonly Buried[]> {
  if (places.length === 0) return []
  const { rows } = await run(sql.errors, [json(places)])
  const errors = new Map(rows.map((row) => [placeOf(row), columns.optionalText(row, 'error')]))
  const messages = await readMessages(run, sql, places, '', maxReceives)
  return messages.map((message) => ({
    message,
    error: errors.get(String(message.place)) ?? NEVER_ANSWERED,
  }))
}

/** Reads messages that this transaction has locked, and returns them in the order of `places`. */
export async function readMessages(
  run: Run,
  { read }: Statements,
  places: readonly string[],
  receipt: string,
  maxReceives: number,
): Promise<readonly QueueMessage[]> {
  const { rows } = await run(read, [ANY_SIZE, json(places)])
  const byPlace = new Map(
    rows
      .map((row) => toReceived(row, receipt, maxReceives))
      .map((message) => [String(message.place), message]),
  )
  return places.flatMap((place) => byPlace.get(place) ?? [])
}
