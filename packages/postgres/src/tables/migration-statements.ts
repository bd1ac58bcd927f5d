/*
 * PostgreSQL changes tables in one transaction, under an advisory lock of that transaction. MySQL and MariaDB commit at
 * every DDL statement, and use other locks.
 */

/**
 * All statements that `migrate` and the check of the revision run in addition to the migrations themselves. `schema` is
 * quoted.
 */
export function migrationStatements(schema: string) {
  return {
    applied: `
select number::text as number
from ${schema}.migrations`,

    /** Whether the table `$1` exists. The name is passed as text, and is quoted. */
    tableExists: 'select (pg_catalog.to_regclass($1) is not null)::text as there',
    schemaExists: 'select (pg_catalog.to_regnamespace($1) is not null)::text as there',

    /** PGlite names itself. */
    version: 'select pg_catalog.version() as version',

    begin: 'begin',
    lock: 'select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))::text as locked',
    commit: 'commit',
    rollback: 'rollback',
  } as const
}
