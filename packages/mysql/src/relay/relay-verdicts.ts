/*
 * MySQL and MariaDB take lists of rows as JSON, and limit their size so that a row fits into a packet; PostgreSQL takes
 * a list as arrays, one for each column.
 */
import type { BacklogRow } from '@txbox/core/ports'
import { NOT_ASCII, asciiJson, escapeCharacters, type UnacceptedRow } from '@txbox/sql/stores'
import { microseconds } from '../connection/literals.ts'

/** A little less than the maximum size of a TEXT column. */
export const MAX_ERROR_BYTES = 60_000

/** What a settlement stores for a row. */
export interface Verdict extends UnacceptedRow {
  /** Only for messages of local consumers: whether the consumer has no handler for the type. */
  readonly unhandled?: boolean
}

/** Returns a row of `rowsTable` as JSON. */
export function rowOf({ seq, stamp }: Pick<BacklogRow, 'seq' | 'stamp'>): string {
  return `[${seq},${stamp}]`
}

/**
 * Returns a row of `verdictsTable` as JSON. Missing fields are left out: MySQL 8.0.19 refuses a JSON `null` where a
 * number is expected. The text is built by hand, because JSON.stringify cannot write a bigint.
 *
 * @param ascii whether the column can store only ASCII.
 * @param mostBytes the maximum size of each text, so that the row fits into a packet.
 */
export function verdictOf(verdict: Verdict, ascii: boolean, mostBytes: number): string {
  const { row, attempts, retryInMs, dead, error, errors, suspect, unhandled } = verdict
  const rest = {
    stamp: row.stamp,
    attempts,
    dead: dead ? 1 : 0,
    suspect: suspect ? 1 : 0,
    ...(unhandled !== undefined && { unhandled: unhandled ? 1 : 0 }),
    ...(retryInMs !== undefined && { retry_us: microseconds(retryInMs) }),
    ...(error !== undefined && { error: storable(error, ascii, Math.min(mostBytes, MAX_ERROR_BYTES)) }),
    ...(errors !== undefined && { errors: storableJson(errors, ascii, mostBytes) }),
  }
  return `{"number":${row.seq},${JSON.stringify(rest).slice(1)}`
}

export function storable(error: string, ascii: boolean, mostBytes: number): string {
  const text = ascii ? escapeCharacters(error, NOT_ASCII) : error.toWellFormed()
  return Buffer.byteLength(text) <= mostBytes ? text : cut(text, mostBytes)
}

/** Does not split a character. */
function cut(text: string, bytes: number): string {
  return new TextDecoder().decode(Buffer.from(text).subarray(0, bytes), { stream: true })
}

/** Returns as many of the newest errors as fit, as JSON. */
function storableJson(errors: string, ascii: boolean, mostBytes: number): string | undefined {
  const text = ascii ? asciiJson(errors) : errors.toWellFormed()
  if (Buffer.byteLength(text) <= mostBytes) return text
  const list = JSON.parse(text) as readonly unknown[]
  for (let first = 1; first < list.length; first++) {
    const rest = JSON.stringify(list.slice(first))
    const shorter = ascii ? asciiJson(rest) : rest
    if (Buffer.byteLength(shorter) <= mostBytes) return shorter
  }
  return undefined
}
