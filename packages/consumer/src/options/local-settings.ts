import {
  InvalidOptionError,
  LIMITS,
  exponentialBackoff,
  hours,
  messageId,
  type IsolationLevel,
  type RetryPolicy,
  type Source,
} from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import {
  OptionChecker,
  connectedPortsOf,
  LOCAL_CONSUMER_NAME,
  inboxKey,
  isLocalConsumerName,
  loggerOption,
  nameOf,
  oneLine,
  pollIntervalsOption,
  propertyOf,
  spanParentOption,
  telemetryOption,
  type FindTelemetry,
  type PollIntervals,
  type SpanParent,
} from '@txbox/core/internal'
import { markedHandlerOf } from './at-least-once.ts'
import { DEFAULT_CONCURRENCY } from './concurrency-shares.ts'
import { consumerLog, type ConsumerLog } from './consumer-log.ts'
import {
  batchOption,
  concurrencyOption,
  type ConsumerSettings,
  type LocalHandlerSettings,
} from './consumer-settings.ts'

const WHERE = 'createLocalConsumer'

/** The options of `createLocalConsumer` that `createTxbox` does not give itself. */
export const LOCAL_ENTRY_OPTIONS: readonly string[] = [
  ...['handlers', 'concurrency', 'batch', 'order', 'retry', 'handleTimeoutMs', 'leaseMs', 'pollIntervalMs'],
  ...['wakeup', 'isolationLevel', 'logger', 'telemetry', 'parent'],
]
const MAX_CONCURRENCY = 10_000
const MAX_BATCHES = 1000
const MAX_PREFETCH = 65_535

const ISOLATION_LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read']

/** The local retries that `RetryLaterError` may ask for, as createConsumer has them by default. */
const LOCAL_RETRIES = { localRetries: 10, localDelayMs: 50 } as const

/** The options of a local consumer, checked and complete. */
export interface LocalSettings {
  readonly ports: ConnectedPorts
  readonly consumer: string
  /** By type. */
  readonly handlers: ReadonlyMap<string, LocalHandlerSettings>
  /** `undefined`: a share of what the pool leaves. */
  readonly concurrency: number | undefined
  readonly batch: ConsumerSettings['batch']
  readonly retry: RetryPolicy
  readonly handleTimeoutMs: number
  readonly leaseMs: number
  readonly pollMs: PollIntervals
  /** Whether the process listens for new messages, where it can. */
  readonly listens: boolean
  readonly isolation: IsolationLevel | undefined
  readonly log: ConsumerLog
  readonly telemetry: FindTelemetry
  readonly spanParent: SpanParent
  readonly signal: AbortSignal | undefined
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function checkLocalOptions(options: object): LocalSettings {
  const check = new OptionChecker(WHERE, options).known(
    ...['database', 'consumer', 'signal'],
    ...LOCAL_ENTRY_OPTIONS,
  )
  const database = propertyOf(options, 'database')
  const ports = connectedPortsOf(WHERE, database)
  refuseSingleConnection(ports)
  const consumer = localConsumerName(check, 'consumer')
  const batch = batchOption(WHERE, propertyOf(options, 'batch'))
  check.oneOf('order', ['per-key'], 'per-key')
  return {
    ports,
    consumer,
    handlers: handlersOption(check, propertyOf(options, 'handlers')),
    concurrency:
      propertyOf(options, 'concurrency') === undefined
        ? undefined
        : concurrencyOption(check, batch === undefined ? MAX_CONCURRENCY : MAX_BATCHES),
    batch,
    retry: retryOption(check, propertyOf(options, 'retry')),
    handleTimeoutMs: check.milliseconds('handleTimeoutMs', { min: 100, max: hours(24), default: 60_000 }),
    leaseMs: check.milliseconds('leaseMs', { min: 500, max: 600_000, default: 10_000 }),
    pollMs: pollIntervalsOption(WHERE, propertyOf(options, 'pollIntervalMs')),
    listens: wakeupOption(check, ports) !== 'poll',
    isolation: isolationOption(check, options, database),
    log: consumerLog(consumer, loggerOption(check, propertyOf(options, 'logger') as never)),
    telemetry: telemetryOption(check, propertyOf(options, 'telemetry') as never),
    spanParent: spanParentOption(check),
    signal: check.signal('signal'),
  }
}

/**
 * Checks the name of a local consumer.
 *
 * @throws {InvalidOptionError} for any other name than 1 to 100 visible ASCII characters without a leading `@`.
 */
function localConsumerName(check: OptionChecker, option: string): string {
  const name = check.text(option, { max: LIMITS.consumerCharacters })
  if (!isLocalConsumerName(name)) throw check.wrong(option, LOCAL_CONSUMER_NAME)
  return name
}

/** PGlite, whose handlers and loops take turns on one connection, shows no maximum. */
function refuseSingleConnection(ports: ConnectedPorts): void {
  if (ports.maxConnections?.() !== 1) return
  throw new InvalidOptionError(
    `${WHERE}: the pool has only one connection. A local consumer needs one for each handler that runs, and up to four for its own ` +
      'statements and leases. Give the pool 10 or more.',
  )
}

/** Returns the settings of the engine that a local consumer shares with the consumers of brokers. */
export function engineSettings(settings: LocalSettings, source: Source): ConsumerSettings {
  const { ports, consumer, handlers, isolation, batch, retry, handleTimeoutMs, log, signal } = settings
  const { telemetry, spanParent } = settings
  const concurrency = settings.concurrency ?? DEFAULT_CONCURRENCY
  const keyOf = messageId()
  return {
    source,
    name: consumer,
    work: { kind: 'local', ports, isolation, handlers },
    // The handlers are called by type.
    handler: () => undefined,
    batch,
    concurrency,
    prefetch: Math.min(MAX_PREFETCH, concurrency * (batch?.maxSize ?? 1) * 2),
    inOrder: true,
    retry,
    ...LOCAL_RETRIES,
    // The source keeps delays, so that the consumer holds no delivery for one.
    holdMs: 0,
    handleTimeoutMs,
    deadLetters: undefined,
    dedup: [],
    retentionMs: undefined,
    keyOf,
    keyTextOf: (message) => inboxKey(keyOf(message), consumer).text,
    log,
    telemetry,
    spanParent,
    signal,
  }
}

function handlersOption(check: OptionChecker, handlers: unknown): ReadonlyMap<string, LocalHandlerSettings> {
  const expected =
    "an object with a handler for each type, such as { 'order.placed': async (tx, message) => {} }"
  if (typeof handlers !== 'object' || handlers === null || Array.isArray(handlers)) {
    throw check.wrong('handlers', expected)
  }
  const found = new Map<string, LocalHandlerSettings>()
  for (const [type, handler] of Object.entries(handlers) as [string, unknown][]) {
    if (
      type.length < 1 ||
      type.length > LIMITS.typeCharacters ||
      type.includes('\0') ||
      !type.isWellFormed()
    ) {
      throw new InvalidOptionError(
        `${WHERE}: each type in the option 'handlers' must be text of 1 to ${LIMITS.typeCharacters} characters, without NUL ` +
          `characters or lone surrogates, not '${oneLine(type.slice(0, 100))}'.`,
      )
    }
    found.set(type, handlerOf(type, handler))
  }
  if (found.size === 0) throw check.wrong('handlers', expected)
  return found
}

function handlerOf(type: string, handler: unknown): LocalHandlerSettings {
  const marked = markedHandlerOf(handler)
  if (marked !== undefined) return { handler: marked, isAtLeastOnce: true }
  if (typeof handler === 'function')
    return { handler: handler as LocalHandlerSettings['handler'], isAtLeastOnce: false }
  throw new InvalidOptionError(
    `${WHERE}: the handler of the type '${oneLine(type)}' must be a function, or the result of atLeastOnce(), not ${nameOf(handler)}.`,
  )
}

function retryOption(check: OptionChecker, retry: unknown): RetryPolicy {
  if (retry === undefined) return exponentialBackoff()
  const attempts = propertyOf(retry, 'attempts')
  const isPolicy = typeof propertyOf(retry, 'delayMs') === 'function' && Number.isSafeInteger(attempts)
  if (!isPolicy || (attempts as number) < 1 || (attempts as number) > 1000) {
    throw check.wrong(
      'retry',
      'a retry policy with 1 to 1000 attempts, such as the result of exponentialBackoff()',
    )
  }
  return retry as RetryPolicy
}

function wakeupOption(check: OptionChecker, ports: ConnectedPorts): 'auto' | 'poll' | 'notify' {
  const wakeup = check.oneOf('wakeup', ['auto', 'poll', 'notify'], 'auto')
  if (wakeup !== 'notify' || ports.listenToLocal !== undefined) return wakeup
  throw new InvalidOptionError(
    `${WHERE}: wakeup: 'notify' requires PostgreSQL and a connection to listen on: pass postgres() a pg.Pool as 'db', or the option ` +
      "'listen'.",
  )
}

/** At REPEATABLE READ, a lock that finds no row blocks others from the gap for as long as a handler runs (MySQL, MariaDB). */
function isolationOption(
  check: OptionChecker,
  options: object,
  database: unknown,
): IsolationLevel | undefined {
  const given = propertyOf(options, 'isolationLevel')
  if (given !== undefined) {
    return check.oneOf<IsolationLevel>('isolationLevel', ISOLATION_LEVELS, 'read committed')
  }
  return propertyOf(database, 'engine') === 'postgres' ? undefined : 'read committed'
}
