/*
 * The packages of txbox share these exports among themselves, so all packages of txbox must have the same version.
 * `@txbox/core` follows semantic versioning; `@txbox/core/internal` and `@txbox/sql` may change in any release.
 */
export { allowedFindings } from './allowed-findings.ts'
export { answerWithin } from './answer-within.ts'
export { canonicalJson } from './canonical-json.ts'
export { isClusterConflict, isMysqlConflict, isPostgresConflict } from './conflict-errors.ts'
export { connectedPortsOf, isConnected, portsOf } from './database.ts'
export { deadLettersOf } from './dead-letters.ts'
export { Deadline } from './deadline.ts'
export {
  DeduplicatedMessages,
  refuseDeduplicationIds,
  type IdentifiedMessage,
} from './deduplicated-messages.ts'
export {
  DEDUPLICATION_HEADER,
  SENDS_CONSUMER,
  deduplicationRules,
  sendIdentity,
  type DeduplicationRules,
  type SendHistory,
  type SendIdentity,
} from './deduplication.ts'
export { isFullDisk } from './full-disk-errors.ts'
export { LONGEST_TIMER_MS } from './durations.ts'
export { encodeMessages, isJson, shardOf, type SendingCall } from './encode-messages.ts'
export { EventListeners } from './event-listeners.ts'
export { idempotencyKey, inboxKey, type InboxKey } from './keys.ts'
export { keyLocksOf } from './key-locks.ts'
export { LazyAbort } from './lazy-abort.ts'
export { loggedEvents, type LogLine, type LogLines, type LoggedEvents } from './logged-events.ts'
export { loggerOption } from './logger.ts'
export { isLostInJson } from './lost-in-json.ts'
export { oneLine } from './one-line.ts'
export { OptionChecker, nameOf } from './options.ts'
export { propertyOf } from './property-of.ts'
export { readableDuration } from './readable-duration.ts'
export { readableNumber } from './readable-number.ts'
export { reasonOf } from './reason-of.ts'
export { readOnlyPart } from './read-only-errors.ts'
export { RepeatedTrouble } from './repeated-trouble.ts'
export { identityOf, isSqlTransaction } from './sql-transaction.ts'
export { SHARDS } from './shards.ts'
export { usablePause } from './usable-pause.ts'
export { uuidV7 } from './uuid-v7.ts'
