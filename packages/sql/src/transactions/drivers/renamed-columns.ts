import { UnsupportedTransactionError } from '@txbox/core'
import type { SqlResult } from '../adapters.ts'

/**
 * Returns the rows of a statement, whose text contains the name of each column. An extension or an option of a library may
 * rename columns: txbox would read a column that it does not find as NULL, and take new messages for duplicates.
 */
export function withItsColumns(rows: SqlResult['rows'], text: string, name: string): SqlResult['rows'] {
  const renamed = Object.keys(rows[0] ?? {}).find((column) => !text.includes(column))
  if (renamed === undefined) return rows
  throw new UnsupportedTransactionError(
    `${name} has returned a column '${renamed}', which the statement of txbox does not have: an extension or an option ` +
      `renames columns. Roll back, and pass txbox transactions, and a root, without it.`,
  )
}
