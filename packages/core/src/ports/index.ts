/*
 * The ports: the features use a database through these interfaces. A database of third parties implements these interfaces; a user of txbox never
 * needs them.
 */
export type { ConnectedPorts, DatabasePorts } from './database-ports.ts'
export type { DeadLetterStore, KeptError, ParkedMessage, StoredPayload } from './dead-letter-store.ts'
export type { DedupLeaseResult, DedupLeaseStore, DedupOwner } from './dedup-lease-store.ts'
export type { CollectionRecord, GarbageStore, Removal } from './garbage-store.ts'
export type {
  Claim,
  ClaimOptions,
  ClaimResult,
  HandlerClaim,
  HandlerClaims,
  HandlerGuard,
  InboxStore,
} from './inbox-store.ts'
export type {
  BlockingKey,
  BoundedCount,
  CollectableFigures,
  Finding,
  InspectionStore,
  Lag,
  OldestDue,
  LeaseFigures,
  LocalConsumerFigures,
  QueueFigures,
  ParkedFigures,
  StatusFigures,
  StuckKey,
} from './inspection-store.ts'
export type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from './lease-store.ts'
export type {
  LocalAcceptance,
  LocalMessage,
  LocalRead,
  LocalRefusal,
  LocalRow,
  LocalSettlement,
  LocalShard,
  LocalStore,
  LocalWork,
} from './local-store.ts'
export type { EncodedMessage, MessageToStore, OutboxStore, Subscribers } from './outbox-store.ts'
export type {
  Giveback,
  QueueReceipt,
  QueueSender,
  QueueStore,
  ReceiveAttempt,
  ReceiveRequest,
  QueueMessage,
} from './queue-store.ts'
export type {
  BacklogMessage,
  BacklogRow,
  ParkedSettlement,
  ReadLimits,
  Refusal,
  RelayStore,
  OutboxSettlement,
  ShardWork,
} from './relay-store.ts'
export type {
  ColumnValue,
  ColumnValues,
  PreciseInstant,
  RowChange,
  RowCondition,
  RowRoot,
  RowStore,
  UserRow,
  VersionRange,
} from './row-store.ts'
export type { RemovalOptions, RemovalOutcome, SubscriptionRemovalStore } from './subscription-removal.ts'
export type { Subscription, SubscriptionStore } from './subscription-store.ts'
export type { TableState, TableStore } from './table-store.ts'
export type {
  ChainPosition,
  DeadChange,
  SharedTransaction,
  VersionBufferStore,
  VersionChain,
  WaitingChange,
} from './version-buffer-store.ts'
export type { Notify, Sleeper, WakeUps } from './wake-ups.ts'
