/* Every database package exports the same names, except for the function that creates the database. */
export { mysql, type MysqlOptions } from './database.ts'
export { migrate, migrationProvider, migrationSql, pendingMigrations } from './tables/migrate.ts'
export {
  DatabaseUnavailableError,
  InvalidOptionError,
  SchemaError,
  TransactionAbortedError,
  TransactionConflictError,
  TxboxError,
  defineLibrary,
  isTxboxError,
} from '@txbox/core'
export type {
  ConnectedDatabase,
  Database,
  TransactionLibraries,
  TransactionLibrary,
  TransactionLibraryRoot,
} from '@txbox/core'
