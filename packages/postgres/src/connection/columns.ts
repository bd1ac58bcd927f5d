/* PostgreSQL returns text as text and instants in milliseconds; MySQL and MariaDB return bytes and microseconds. */
import { RowReader } from '@txbox/sql/stores'

/** Reads the values that the statements of this package return: text, or null. */
export const columns = new RowReader({
  textOf: (value) => value as string,
  keyOf: (value) => value as string,
  isTrue: 'true',
  instantsPerMs: 1,
})
