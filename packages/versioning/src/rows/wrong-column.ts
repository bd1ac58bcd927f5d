import { InvalidOptionError, isTxboxError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { KeyedRow } from './keyed-row.ts'

/**
 * The errors of a wrong column. PostgreSQL: the column does not exist; the type of the column has no such operator; a
 * value has another type than the column. MySQL and MariaDB: the column does not exist; a number is not a value of the
 * column's type.
 */
const WRONG_COLUMN: ReadonlySet<unknown> = new Set([
  '42703',
  '42883',
  '42804',
  'ER_BAD_FIELD_ERROR',
  'ER_TRUNCATED_WRONG_VALUE',
])

/**
 * Runs statements on the version column. An error of the database that concerns a column becomes an
 * `InvalidOptionError`.
 */
export async function translatingWrongColumns<R>(
  row: KeyedRow,
  column: string,
  work: () => Promise<R>,
): Promise<R> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error) || isTxboxError(error) || !WRONG_COLUMN.has(Reflect.get(error, 'code'))) {
      throw error
    }
    throw new InvalidOptionError(
      `${row.doing}: the database refuses a column (${error.message}). Expected a version column '${oneLine(column)}' of an ` +
        "integer type, and the columns that 'where' names. Nothing was written. Correct 'versionColumn' or 'where'.",
      { cause: error },
    )
  }
}
