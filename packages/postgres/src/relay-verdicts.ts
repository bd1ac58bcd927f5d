/* PostgreSQL takes columns of values as arrays; MySQL and MariaDB take rows as JSON, and bound their size by the packet. */
import type { BacklogRow } from '@txbox/core'
import { NOT_ASCII, asciiJson, escapeCharacters, type Verdict } from '@txbox/sql'
import { textArray, textStamps } from './integer-arrays.ts'

/** Returns numbers and stamps as two arrays. */
export function rowsOf(rows: readonly BacklogRow[]): [numbers: string, stamps: string] {
  return [textArray(rows.map(({ seq }) => seq)), textStamps(rows.map(({ stamp }) => stamp))]
}

/**
 * Returns the eight arrays that `verdicts` of the statements reads. `ascii`: the database can store no other
 * characters.
 */
export function columnsOf(verdicts: readonly Verdict[], ascii: boolean): readonly unknown[] {
  return [
    ...rowsOf(verdicts.map(({ row }) => row)),
    verdicts.map(({ attempts }) => attempts),
    verdicts.map(({ retryInMs }) => retryInMs ?? null),
    verdicts.map(({ dead }) => dead),
    // No text of PostgreSQL holds NUL; JSON escapes NUL by itself.
    verdicts.map(({ error }) =>
      error === undefined ? null : escapeCharacters(error, ascii ? NOT_ASCII : /\0/g),
    ),
    verdicts.map(({ errors }) => (errors === undefined ? null : ascii ? asciiJson(errors) : errors)),
    verdicts.map(({ suspect }) => suspect),
  ]
}
