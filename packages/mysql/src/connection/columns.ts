/* MySQL and MariaDB return bytes and microseconds, and keys in hexadecimal; PostgreSQL returns text and milliseconds. */
import { RowReader, type Row } from '@txbox/sql/stores'
import { textOf } from './literals.ts'

export const columns = new RowReader({
  textOf,
  keyOf: (value) => Buffer.from(textOf(value), 'hex').toString(),
  isTrue: '1',
  instantsPerMs: 1000,
})

export function placeOf(row: Row): string {
  return columns.text(row, 'place')
}
