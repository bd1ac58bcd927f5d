/* What the stores of all databases share. */
export {
  GREATEST_STAMP,
  LEAST_STAMP,
  STAMP_BOUNDS,
  inlineBytes,
  toStamp,
  withinBytes,
  withoutLater,
} from './relay/backlog.ts'
export {
  CLAIMING,
  CLAIM_ROUNDS,
  SAVING_RESULT,
  claimEachKeyOnce,
  claimGone,
  duplicateClaim,
  hasExtras,
  unsettledClaim,
  type TimedResult,
} from './inbox/claims.ts'
export {
  SqlDeadLetterStore,
  pageOf,
  positionOf,
  type SelectedRows,
  type Selecting,
} from './operate/dead-letter-store.ts'
export { SqlDedupLeaseStore, type NewLease } from './dedup/dedup-lease-store.ts'
export { dueMessages } from './relay/due-messages.ts'
export {
  durabilityFinding,
  horizonFinding,
  isolationFinding,
  judged,
  listed,
  writableFinding,
} from './operate/findings.ts'
export { SqlGarbageStore, type RemovalByAge } from './operate/garbage-store.ts'
export { EXACT_CLAIMS, SqlInspectionStore } from './operate/inspection-store.ts'
export { KEY_ENDS } from './operate/queue-inspection.ts'
export { SqlRemovalStore, type RemovalPage, type RemovedMessages } from './operate/removal-store.ts'
export { LEASE_TIMEOUT_MS, LeaseConnection } from './relay/lease-connection.ts'
export { CHECKING, Migrations, untilTaken, type Migrating, type RunStatement } from '../tables/migrations.ts'
export { ReceiveAttempts, attemptClaim } from './queue/receive-attempts.ts'
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
} from './queue/queue-rounds.ts'
export { ALL_SHARDS, shardRow, shuffled } from './queue/queue-shards.ts'
export { RECEIVED_BYTES, ReceiveBudget, type Bounds } from './queue/receive-budget.ts'
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
  type UnacceptedRow,
} from './relay/relay-verdicts.ts'
export { RowReader, type Row } from './row-reader.ts'
export { storedValues } from './stored-values.ts'
export { BUFFERING, deadChange, sharedTransaction, waitingChange } from './versions/buffered-changes.ts'
export { columnValue, type ColumnKind } from './rows/column-values.ts'
export { TableCatalog, type TableColumn } from './rows/table-catalog.ts'
export { explainWrongName, noTable, notUnique } from './rows/wrong-names.ts'
