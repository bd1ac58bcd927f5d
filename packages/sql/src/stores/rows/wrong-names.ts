import { InvalidOptionError, isTxboxError } from '@txbox/core'
import { oneLine, reasonOf } from '@txbox/core/internal'

/**
 * Explains an error of a statement on a table of the user.
 *
 * @param statement the name of the statement.
 * @param isWrongName whether the server refuses the name of a table or column, or the type of a column.
 */
export function explainWrongName(
  error: unknown,
  {
    doing,
    statement,
    column,
  }: { readonly doing: string; readonly statement: string; readonly column?: string | undefined },
  isWrongName: (error: unknown) => boolean,
): unknown {
  // Missing tables are usually those of txbox.
  const cause = isTxboxError(error) && error.code === 'TXBOX_SCHEMA' ? error.cause : error
  if (isTxboxError(cause) || !isWrongName(cause)) return cause
  const ofColumn =
    column === undefined
      ? ''
      : `, and in '${oneLine(column)}' a version of an integer type, a time or a state`
  return new InvalidOptionError(
    `${doing}: the database refuses a name or a type in the statement '${statement}' (${reasonOf(cause, 300)}). Expected the ` +
      `names of a table and its columns as the database has them${ofColumn}. Nothing was written. Correct the names.`,
    { cause },
  )
}

/** The catalog does not have the table. */
export function noTable({
  doing,
  table,
}: {
  readonly doing: string
  readonly table: string
}): InvalidOptionError {
  return new InvalidOptionError(
    `${doing}: the catalog of the database has no table '${oneLine(table, 130)}' that the user of this connection may read. (On MySQL and ` +
      'MariaDB, it has no temporary tables.) Nothing was written. Correct the name, or name the schema: schema.table.',
  )
}

/** No unique key of the table consists of the columns of the key. */
export function notUnique(doing: string, cause?: unknown): InvalidOptionError {
  return new InvalidOptionError(
    `${doing}: no unique key of the table consists of the columns of 'where', so each call could insert another row. ` +
      'Nothing was written. Name the columns of a unique key, or create one.',
    { cause },
  )
}
