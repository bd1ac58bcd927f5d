import type { Row } from './target.ts'

type Query = (text: string) => Promise<readonly Row[]>

/** What a test could change of a database, besides its rows. */
const CATALOGS = [
  ...['pg_attrdef', 'pg_attribute', 'pg_cast', 'pg_class', 'pg_collation', 'pg_constraint', 'pg_default_acl'],
  ...['pg_description', 'pg_event_trigger', 'pg_extension', 'pg_index', 'pg_inherits', 'pg_language'],
  ...['pg_operator', 'pg_policy', 'pg_proc', 'pg_publication', 'pg_rewrite', 'pg_sequence', 'pg_statistic'],
  ...['pg_statistic_ext', 'pg_trigger', 'pg_type'],
]

/** Tables with rows that the migrations insert. */
const ROWS_OF_MIGRATIONS = ['collections', 'migrations']

/** Each change of a catalog writes a row with a higher transaction number. */
const STATE = `
  select string_agg(state, ' ') as state from (
    ${CATALOGS.map((catalog) => `select '${catalog} ' || count(*) || ' ' || max(xmin::text::bigint) as state from pg_catalog.${catalog}`).join(' union all ')}
    union all select 'pg_namespace ' || count(*) || ' ' || max(xmin::text::bigint) from pg_catalog.pg_namespace
      where nspname !~ '^pg_(toast_)?temp'
    union all select 'settings ' || coalesce(string_agg(setrole || ' ' || setconfig::text, ' ' order by setrole), '')
      from pg_catalog.pg_db_role_setting join pg_catalog.pg_database as d on d.oid = setdatabase where datname = current_database()
    union all select 'rights ' || coalesce(datacl::text, '') from pg_catalog.pg_database where datname = current_database()
    ${ROWS_OF_MIGRATIONS.map((table) => `union all select string_agg(t::text, ' ' order by t::text) from txbox.${table} as t`).join('\n')}
  ) as states`

/** Describes everything of the database but the rows of tables that are empty after the migrations. */
export async function postgresState(query: Query): Promise<string> {
  const [row] = await query(STATE)
  return String(row?.['state'])
}

/** Drops the tables that a file has created for itself. */
export async function dropPostgresTables(query: Query): Promise<void> {
  const rows = await query(
    `select oid::regclass::text as name from pg_catalog.pg_class
     where relkind = 'r' and relnamespace = 'public'::regnamespace and relname not in ('effects', 'counters')`,
  )
  if (rows.length > 0) await query(`drop table ${rows.map(({ name }) => String(name)).join(', ')}`)
}

/** Empties the tables that are empty after the migrations, and lets their numbers begin again. */
export async function emptyPostgres(query: Query): Promise<void> {
  const rows = await query(
    `select oid::regclass::text as name from pg_catalog.pg_class
     where relkind = 'r' and relnamespace in ('txbox'::regnamespace, 'public'::regnamespace)
       and relname not in (${ROWS_OF_MIGRATIONS.map((table) => `'${table}'`).join()}) and pg_catalog.pg_relation_size(oid) > 0`,
  )
  if (rows.length > 0)
    await query(`truncate ${rows.map(({ name }) => String(name)).join(', ')} restart identity`)
}
