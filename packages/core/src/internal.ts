/*
 * The packages of txbox share these exports among themselves, so all packages of txbox must have the same version.
 * `@txbox/core` and `@txbox/core/ports` follow semantic versioning; `@txbox/core/internal` and `@txbox/sql` may change in any release.
 */
export { allowedFindings } from './database/allowed-findings.ts'
export { attemptsOnConflict } from './time/attempts-on-conflict.ts'
export { cloudEventIn, identityOfCloudEvent, withCloudEvent } from './messages/cloud-event-identity.ts'
export { canonicalJson } from './messages/canonical-json.ts'
export { aggregatedErrors, isCausedBy, withCauses } from './errors/causes.ts'
export { isClusterConflict, isMysqlConflict, isPostgresConflict } from './errors/conflict-errors.ts'
export { CAUSATION_HEADER, causing, type Cause } from './sending/causes-of-messages.ts'
export { createSender } from './sending/create-sender.ts'
export { copyBytes, copyMessage } from './messages/copy-message.ts'
export { connectedPortsOf, isConnected, portsOf } from './database/database.ts'
export { deadLetterStoreOf, deadLettersOf, whoAmI } from './database/dead-letters.ts'
export { Deadline } from './time/deadline.ts'
export {
  DEDUPLICATION_HEADER,
  SENDS_CONSUMER,
  deduplicationRules,
  sendIdentity,
  type SendIdentity,
} from './sending/deduplication.ts'
export {
  DEDUP_BOUNDS,
  DEDUP_RETRY_MS,
  checkDedupResult,
  dedupSettings,
  dedupTimes,
  dedupTokenOf,
  type DedupSettings,
} from './options/dedup-options.ts'
export { withError } from './errors/error-history.ts'
export { explanationOf } from './errors/explanation-of.ts'
export { isFullDisk } from './errors/full-disk-errors.ts'
export { LONGEST_TIMER_MS } from './time/durations.ts'
export { HeldShard } from './leases/held-shard.ts'
export { LeaseKeeper } from './leases/lease-keeper.ts'
export { LeaseGroup } from './leases/lease-group.ts'
export { LOCAL_LEASES, RELAY_LEASES } from './leases/lease-names.ts'
export { systemClock, trustFrom, type Clock } from './leases/lease-trust.ts'
export { notifyOption } from './options/notify-option.ts'
export { PollPace } from './leases/poll-pace.ts'
export {
  PacedSleeper,
  pollIntervalsOption,
  type PollInterval,
  type PollIntervals,
} from './leases/poll-intervals.ts'
export { SuspectCalm } from './leases/suspect-calm.ts'
export { decodeHeaders, encodeMessages, shardOf } from './sending/encode-messages.ts'
export { diagnose, diagnosed, isDiagnosed } from './events/diagnostics.ts'
export { EventListeners } from './events/event-listeners.ts'
export { idempotencyKey, inboxKey, type InboxKey } from './messages/keys.ts'
export { onlyServer, serverOfUrl } from './sending/only-server.ts'
export { OrderedBatch } from './sending/ordered-batch.ts'
export { PausedKeys } from './sending/paused-keys.ts'
export { SharedConnection, type Connection } from './sending/shared-connection.ts'
export { keyLocksOf } from './sending/key-locks.ts'
export { LeaseExpiries } from './leases/lease-expiries.ts'
export { LazyAbort } from './time/lazy-abort.ts'
export { loggedEvents, type LogLine, type LogLines, type LoggedEvents } from './events/logged-events.ts'
export { LifeCycle, stoppedBy, stopTimeout } from './events/life-cycle.ts'
export { loggerOption } from './events/logger.ts'
export { connectedPublisher } from './sending/connected-publisher.ts'
export { destinationOf, outgoingOrRejected } from './sending/outgoing-or-rejected.ts'
export { RememberedNames } from './sending/remembered-names.ts'
export { isLostInJson } from './messages/lost-in-json.ts'
export { NETWORK_CODES, isConnectionError } from './errors/network-errors.ts'
export { oneLine, visible } from './text/one-line.ts'
export { nameOf } from './text/name-of.ts'
export { OptionChecker } from './options/options.ts'
export { pause } from './time/pause.ts'
export { decodePayload, isUndecodable, jsonOf, payloadForm, textOf } from './payload.ts'
export { propertyOf } from './errors/property-of.ts'
export { readableDuration } from './text/readable-duration.ts'
export { readableNumber } from './text/readable-number.ts'
export { reasonOf } from './errors/reason-of.ts'
export { readOnlyPart } from './errors/read-only-errors.ts'
export { RepeatedTrouble } from './events/repeated-trouble.ts'
export { identityOf, isSqlTransaction } from './database/sql-transaction.ts'
export { SHARDS } from './sending/shards.ts'
export {
  LISTED_TYPES,
  LOCAL_CONSUMER_NAME,
  givenConsumers,
  isLocalConsumerName,
  subscribersOption,
  unroutedError,
} from './sending/subscribers.ts'
export { tlsOption, type TlsOptions } from './options/tls-option.ts'
export { PublisherState, endChecks } from './sending/publisher-state.ts'
export { Turns, TurnsByObject } from './time/turns.ts'
export { unanswered } from './errors/unanswered.ts'
export { unlessAborted } from './time/unless-aborted.ts'
export { untilTime } from './time/until-time.ts'
export { usablePause } from './time/usable-pause.ts'
export { uuidV7 } from './messages/uuid-v7.ts'
export { mysqlVersionRange, postgresVersionRange } from './database/version-ranges.ts'
export { within } from './time/within.ts'
export { ATTRIBUTES } from './telemetry/names.ts'
export { withoutDestination } from './telemetry/without-destination.ts'
export { BUCKETS, metricText } from './telemetry/metric-texts.ts'
export { observeDatabase } from './gauges/database-gauges.ts'
export { seriesOf } from './telemetry/joined-gauge.ts'
export { GAUGES_END_MS, observeTables } from './gauges/leased-gauges.ts'
export { whileInUse } from './telemetry/telemetry-in-use.ts'
export { GuardedTelemetry } from './telemetry/guarded-telemetry.ts'
export {
  registeredTelemetry,
  spanParentOption,
  telemetryOption,
  type FindTelemetry,
} from './telemetry/telemetry-option.ts'
export {
  isInSpan,
  markInSpan,
  processingOne,
  processingSeveral,
  type Processing,
  type SpanParent,
} from './telemetry/processing-span.ts'
export { errorTypeOf } from './telemetry/error-type.ts'
export { linksTo } from './telemetry/links.ts'
export { isTraceparent, isTracestate, traceContextOf } from './telemetry/trace-context.ts'
