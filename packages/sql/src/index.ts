export {
  GREATEST_STAMP,
  LEAST_STAMP,
  STAMP_BOUNDS,
  inlineBytes,
  toStamp,
  withinBytes,
  withoutLater,
} from './backlog.ts'
export {
  CLAIMING,
  CLAIM_ROUNDS,
  SAVING_RESULT,
  claimGone,
  hasExtras,
  takenClaim,
  unsettledClaim,
} from './claims.ts'
export { inTurnOfConnection } from './connection-turns.ts'
export {
  NETWORK_CODES,
  PRISMA_NETWORK_CODES,
  accessRefused,
  conflict,
  isCausedBy,
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
} from './database-errors.ts'
export {
  SqlDeadLetterStore,
  pageOf,
  positionOf,
  type SelectedRows,
  type Selecting,
} from './dead-letter-store.ts'
export { CHECK_TIMEOUT_MS, GARBAGE_TIMEOUT_MS, cancelAfterMs, tooLate, type Source } from './deadline.ts'
export { listeningOn } from './drivers/pg-root.ts'
export { dueMessages } from './due-messages.ts'
export {
  durabilityFinding,
  horizonFinding,
  isolationFinding,
  judged,
  listed,
  writableFinding,
} from './findings.ts'
export { SqlGarbageStore, type RemovalByAge } from './garbage-store.ts'
export type {
  Awaitable,
  CheckedSnapshot,
  ConnectionMonitor,
  ListeningConnection,
  Opening,
  OwnConnection,
  Statement,
  Resolved,
  RootAdapter,
  Snapshot,
  SqlResult,
  TransactionState,
} from './adapters.ts'
export { KEY_ENDS, SqlInspectionStore } from './inspection-store.ts'
export { LEASE_TIMEOUT_MS, LeaseConnection } from './lease-connection.ts'
export { CHECKING, Migrations, untilTaken, type Migrating, type RunStatement } from './migrations.ts'
export { ReceiveAttempts, attemptClaim } from './receive-attempts.ts'
export { Resolver, connectionIdentity, resolverOption } from './resolver.ts'
export {
  NEVER_ANSWERED,
  RECEIVED_BYTES,
  byOrder,
  expiredFlights,
  firstLook,
  isSuspect,
  nextLook,
  queueRound,
  returnTime,
  type Bounds,
  type QueueCandidate,
  type QueueRound,
} from './queue-rounds.ts'
export { ALL_SHARDS, shardRow, shuffled } from './queue-shards.ts'
export { withLiterals } from './postgres-literals.ts'
export {
  NOT_ASCII,
  SETTLING,
  asciiJson,
  assertNone,
  deniedSettlement,
  escapeCharacters,
  leaseLost,
  refused,
  waiting,
  withStorableTexts,
  type Verdict,
} from './relay-verdicts.ts'
export { repeatOnConflict } from './repeat-on-conflict.ts'
export { RowReader, type Row } from './row-reader.ts'
export { PROBE, savepointStatements } from './savepoint-statements.ts'
export { assertTwoConnections, publicTransact, transactOn, transactOptions } from './transact.ts'
export { isStale } from './stale-connection.ts'
export { BUFFERING, versionBufferReads } from './version-buffer-store.ts'
