import type { Row } from './target.ts'

type Query = (text: string) => Promise<readonly Row[]>

/** Tables with rows that the migrations insert. */
const ROWS_OF_MIGRATIONS = ['txbox_collections', 'txbox_key_locks', 'txbox_migrations']

/** What a test could change of a database, besides its rows. */
const STATE = [
  `select 'table' as what, table_name as name, concat_ws(' ', engine, row_format, table_collation, create_options) as state
   from information_schema.tables where table_schema = database()`,
  `select 'column', concat(table_name, '.', column_name),
     concat_ws(' ', ordinal_position, column_type, is_nullable, collation_name, column_default, extra)
   from information_schema.columns where table_schema = database()`,
  `select 'index', concat(table_name, '.', index_name, '.', seq_in_index), concat_ws(' ', column_name, non_unique, sub_part)
   from information_schema.statistics where table_schema = database()`,
  `select 'constraint', concat(table_name, '.', constraint_name), constraint_type
   from information_schema.table_constraints where table_schema = database()`,
  `select 'trigger', trigger_name, action_statement from information_schema.triggers where trigger_schema = database()`,
  `select 'routine', routine_name, routine_definition from information_schema.routines where routine_schema = database()`,
  `select 'event', event_name, event_definition from information_schema.events where event_schema = database()`,
  `select 'right', concat(grantee, table_schema), privilege_type from information_schema.schema_privileges where table_schema = database()`,
  `checksum table ${ROWS_OF_MIGRATIONS.join()}`,
]

/** Describes everything of the database but the rows of tables that are empty after the migrations. */
export async function mysqlState(query: Query): Promise<string> {
  const lines: string[] = []
  for (const text of STATE) {
    const rows = await query(text)
    lines.push(...rows.map((row) => Object.values(row).map(String).join(' ')).toSorted())
  }
  return lines.join('\n')
}

/** Drops the tables that a file has created for itself. */
export async function dropMysqlTables(query: Query): Promise<void> {
  const rows = await query(
    `select table_name as name from information_schema.tables where table_schema = database()
       and left(table_name, 6) <> 'txbox_' and table_name not in ('effects', 'counters', 'ballast')`,
  )
  if (rows.length > 0) await query(`drop table ${rows.map(({ name }) => `\`${String(name)}\``).join(', ')}`)
}

/** Empties the tables that are empty after the migrations, and lets their numbers begin again. */
export async function emptyMysql(query: Query): Promise<void> {
  const tables = await query(
    `select table_name as name from information_schema.tables
     where table_schema = database()
       and table_name not in (${ROWS_OF_MIGRATIONS.map((table) => `'${table}'`).join()})`,
  )
  for (const { name } of tables) {
    const rows = await query(`select 1 from \`${String(name)}\` limit 1`)
    if (rows.length > 0) await query(`truncate table \`${String(name)}\``)
  }
}
