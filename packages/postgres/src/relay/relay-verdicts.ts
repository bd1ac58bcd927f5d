/*
 * PostgreSQL takes a list as arrays, one for each column; MySQL and MariaDB take lists of rows as JSON, and limit their
 * size so that a row fits into a packet.
 */
import { NOT_ASCII, asciiJson, escapeCharacters, type UnacceptedRow } from '@txbox/sql/stores'
import { rowsOf } from '../connection/integer-arrays.ts'

/**
 * Returns the eight arrays that `verdicts` of the statements takes. With `ascii`, all other characters are escaped,
 * because the database cannot store them.
 */
export function columnsOf(verdicts: readonly UnacceptedRow[], ascii: boolean): readonly unknown[] {
  return [
    ...rowsOf(verdicts.map(({ row }) => row)),
    verdicts.map(({ attempts }) => attempts),
    verdicts.map(({ retryInMs }) => retryInMs ?? null),
    verdicts.map(({ dead }) => dead),
    // PostgreSQL cannot store NUL in text. In JSON, NUL is already escaped.
    verdicts.map(({ error }) =>
      error === undefined ? null : escapeCharacters(error, ascii ? NOT_ASCII : /\0/g),
    ),
    verdicts.map(({ errors }) => (errors === undefined ? null : ascii ? asciiJson(errors) : errors)),
    verdicts.map(({ suspect }) => suspect),
  ]
}
