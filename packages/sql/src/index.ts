export { STAMP_BOUNDS, inlineBytes, toStamp, withinBytes, withoutLater } from './backlog.ts'
export {
  CLAIMING,
  CLAIM_ROUNDS,
  SAVING_RESULT,
  claimGone,
  hasExtras,
  takenClaim,
  unsettledClaim,
} from './claims.ts'
export {
  NETWORK_CODES,
  conflict,
  isCausedBy,
  isConflictCausedBy,
  isTxboxConflict,
  translateBy,
  unavailable,
  type DatabaseErrors,
  type Meaning,
} from './database-errors.ts'
export { DeadLetterRows, lastOfFull, keptErrors } from './dead-letter-rows.ts'
export { CHECK_TIMEOUT_MS, GARBAGE_TIMEOUT_MS, cancelAfterMs, tooLate, type Source } from './deadline.ts'
export { listeningOn } from './drivers/pg-root.ts'
export { judged, listed, revisionFinding } from './findings.ts'
export type {
  CheckedSnapshot,
  ConnectionMonitor,
  Engine,
  DriverAdapter,
  Isolation,
  ListeningConnection,
  Opening,
  OwnConnection,
  Resolved,
  RootAdapter,
  Snapshot,
  SqlResult,
  TransactionState,
} from './adapters.ts'
export { KEY_ENDS, SqlInspectionStore } from './inspection-store.ts'
export { LeaseConnection } from './lease-connection.ts'
export {
  LOCK_PAUSE_MS,
  assertRevision,
  kyselyProvider,
  missingMigrations,
  onMigratingConnection,
  pendingOn,
  statementsOf,
  type MigratedDatabase,
  type RunStatement,
} from './migrations.ts'
export {
  answerOf,
  assertUnchanged,
  attemptClaim,
  isAnswerOver,
  storedAnswer,
  type AnsweredMessage,
} from './receive-attempts.ts'
export { Resolver, resolverOption } from './resolver.ts'
export {
  NEVER_ANSWERED,
  byOrder,
  expiredFlights,
  firstLook,
  isSuspect,
  nextLook,
  queueRound,
  type QueueCandidate,
  type QueueRound,
} from './queue-rounds.ts'
export { ALL_SHARDS, shuffled } from './queue-shards.ts'
export { removeHandled, type HandledShards } from './remove-handled.ts'
export {
  NOT_ASCII,
  SETTLING,
  asPermitted,
  asciiJson,
  assertNone,
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
export { BUFFERING, connectionOf, deadChange, waitingChange } from './version-buffer-rows.ts'
