/* How a database package uses the transactions, connections and roots of the user's library. */
export { swallowedText } from './aborted-transaction.ts'
export { inTurnOfConnection } from './resolver/connection-turns.ts'
export {
  CONNECTION_CODES,
  accessRefused,
  conflict,
  isConflictCausedBy,
  isTxboxConflict,
  fullDisk,
  noTables,
  readOnly,
  translateBy,
  translatingErrors,
  isFullPool,
  unavailable,
  type DatabaseErrors,
  type Meaning,
} from '../errors/database-errors.ts'
export {
  CHECK_TIMEOUT_MS,
  GARBAGE_TIMEOUT_MS,
  cancelAfterMs,
  tooLate,
  type StatementRoot,
} from './deadline.ts'
export { listeningOn } from './drivers/pg-root.ts'
export type {
  Awaitable,
  CheckedSnapshot,
  ConnectionMonitor,
  Resolved,
  Snapshot,
  SqlResult,
  TransactionState,
} from './adapters.ts'
export type {
  ListeningConnection,
  ListeningEvents,
  Opening,
  OwnConnection,
  Statement,
  RootAdapter,
} from './root-adapter.ts'
export { useConnections } from './pool-use.ts'
export { startOnPool, withinPool } from './pool-waits.ts'
export { Resolver, connectionIdentity, resolverOption } from './resolver/resolver.ts'
export { withLiterals } from './drivers/postgres-literals.ts'
export { lossOn } from './lost-connections.ts'
export { repeatOnConflict } from './repeat-on-conflict.ts'
export { PROBE, savepointStatements } from './savepoint-statements.ts'
export { assertTwoConnections, publicTransact, transactOn, transactOptions } from './transact.ts'
export { isStale } from './drivers/stale-connection.ts'
