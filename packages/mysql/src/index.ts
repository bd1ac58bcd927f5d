/* The public API of each database package: the same names but for the database itself. */
export { mysql, type MysqlOptions } from './database.ts'
export { migrate, migrationProvider, migrationSql, pendingMigrations } from './migrate.ts'
export type { ConnectedDatabase, Database } from '@txbox/core'
