import { InvalidOptionError } from '@txbox/core'
import { mysqlVersionRange } from '@txbox/core/internal'
import { textResult, type Dialect, type Upsert, type UpsertedRow } from './dialect.ts'
import { mysqlStatements } from './mysql-statements.ts'
import { assertUniqueKey } from './unique-key.ts'
import { expressionOf, inserting, valuesOf } from './upsert.ts'

export const MYSQL: Dialect = {
  engine: 'mysql',
  ...mysqlStatements,
  lock: (query) => query.forUpdate(),
  returns: false,
  async rangeOf(db, { schema, table, column }) {
    const { rows } = await mysqlStatements.columnType(schema, table, column).execute(db)
    const [found] = rows
    const text = (name: string): string => textResult(found?.[name] ?? '')!
    const size = { precision: Number(text('digits')), scale: Number(text('scale')) }
    if (found === undefined) return undefined
    return mysqlVersionRange(text('type').toLowerCase(), text('declared'), size) ?? 'any'
  },
  upsert,
}

/**
 * The values to which LAST_INSERT_ID is set if the new row collided with the row of this key, or with another row. No
 * AUTO_INCREMENT column reaches these values.
 */
const SAME_ROW = 2n ** 53n - 1n
const OTHER_ROW = SAME_ROW - 1n

/**
 * Inserts or updates a row. The row count does not distinguish an inserted row (1) from an unchanged row (1, or 0
 * without the driver's FOUND_ROWS flag); only an updated row counts as 2. So the statement calls LAST_INSERT_ID with an
 * argument that is not constant, which is evaluated only for existing rows. The time is assigned last, because MySQL
 * assigns from left to right and the conditions read the old time.
 */
async function upsert(upsert: Upsert): Promise<boolean> {
  const { row, column, at, set } = upsert
  const { hasKey, both, marked, assignedIf } = mysqlStatements
  const same = hasKey(row.key)
  const newer = both(same, upsert.newer)
  const assignments = Object.entries(set)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, assignedIf(newer, expressionOf(value), name)])
  const query = inserting(upsert).onDuplicateKeyUpdate({
    ...Object.fromEntries(assignments),
    [column]: assignedIf(both(marked(same, SAME_ROW, OTHER_ROW), newer), at, column),
  })
  const compiled = query.compile()
  await assertUniqueKey(row, compiled, Object.keys(valuesOf(upsert)))
  const { insertId, numAffectedRows } = await row.translated(() => row.db.executeQuery(compiled))
  if (insertId === OTHER_ROW) throw collides(row)
  return numAffectedRows === 2n || (numAffectedRows === 1n && insertId !== SAME_ROW)
}

function collides(row: UpsertedRow): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: the row to insert collides with a row that has the same value of another unique key. Nothing was written. ` +
      "Use values in 'insert' that no other row has.",
  )
}
