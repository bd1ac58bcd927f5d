import { postgresVersionRange } from '@txbox/core/internal'
import { textResult, type Dialect, type Upsert } from './dialect.ts'
import { postgresStatements } from './postgres-statements.ts'
import { notUnique } from './unique-key.ts'
import { inserting } from './upsert.ts'

export const POSTGRES: Dialect = {
  engine: 'postgres',
  ...postgresStatements,
  version: String,
  roundsInsert: postgresStatements.rounds,
  // Like UPDATE, FOR NO KEY UPDATE does not block inserts of rows that reference this row by a foreign key.
  lock: (query, strength) => (strength === 'update' ? query.forUpdate() : query.forNoKeyUpdate()),
  returns: true,
  async rangeOf(db, { schema, table, column }) {
    const quoted = (schema === undefined ? [table] : [schema, table]).map(
      (name) => `"${name.replaceAll('"', '""')}"`,
    )
    const { rows } = await postgresStatements.columnType(quoted.join('.'), column).execute(db)
    const [found] = rows
    if (found === undefined) return undefined
    return postgresVersionRange(textResult(found['type'])!, Number(textResult(found['modifier']))) ?? 'any'
  },
  upsert,
}

/** PostgreSQL: there is no unique or exclusion constraint matching the ON CONFLICT specification. */
const NO_UNIQUE_KEY = '42P10'

async function upsert(upsert: Upsert): Promise<boolean> {
  const { row, column, at, set, newer } = upsert
  const query = inserting(upsert).onConflict((conflict) =>
    conflict
      .columns(Object.keys(row.key))
      .doUpdateSet({ ...set, [column]: at })
      .where(newer),
  )
  try {
    const { numInsertedOrUpdatedRows } = await row.translated(() => query.executeTakeFirstOrThrow())
    return (numInsertedOrUpdatedRows ?? 0n) > 0n
  } catch (error) {
    throw Reflect.get(Object(error), 'code') === NO_UNIQUE_KEY ? notUnique(row, error) : error
  }
}
