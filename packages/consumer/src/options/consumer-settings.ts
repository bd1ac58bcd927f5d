import {
  InvalidOptionError,
  LIMITS,
  days,
  exponentialBackoff,
  hours,
  messageId,
  type DedupStore,
  type InboxMessage,
  type IsolationLevel,
  type KeyExtractor,
  type Publisher,
  type RetryPolicy,
  type RunsMessages,
  type Source,
  portsKey,
} from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import {
  OptionChecker,
  connectedPortsOf,
  inboxKey,
  loggerOption,
  propertyOf,
  spanParentOption,
  telemetryOption,
  type FindTelemetry,
  type SpanParent,
} from '@txbox/core/internal'
import { lingerOption, maxSizeOption } from '../batcher/batcher-settings.ts'
import { consumerLog, type ConsumerLog } from './consumer-log.ts'
import type { Guard } from './consumer.ts'

const MAX_CONCURRENCY = 10_000
const MAX_BATCHES = 1000
const MAX_PREFETCH = 65_535

const OPTIONS = [
  ...['source', 'inbox', 'database', 'handler', 'guard', 'batch', 'delivery'],
  ...['name', 'concurrency', 'prefetch'],
  ...['order', 'acknowledge', 'retry', 'localRetries', 'localDelayMs', 'holdMs', 'handleTimeoutMs'],
  ...['deadLetters', 'deadLetterTopic', 'dedup', 'retentionMs', 'key', 'logger', 'signal'],
  ...['telemetry', 'parent'],
]

/** How the handler's work becomes durable. */
export type WorkSettings =
  | {
      readonly kind: 'inbox'
      readonly inbox: RunsMessages<unknown>
      /** Of the inbox's database; absent if the inbox is none of txbox. */
      readonly ports: ConnectedPorts | undefined
      readonly guard: Guard<unknown> | undefined
    }
  | {
      readonly kind: 'database'
      readonly ports: ConnectedPorts
      readonly guard: Guard<unknown> | undefined
    }
  | {
      readonly kind: 'local'
      readonly ports: ConnectedPorts
      readonly isolation: IsolationLevel | undefined
      /** By type. */
      readonly handlers: ReadonlyMap<string, LocalHandlerSettings>
    }
  | {
      readonly kind: 'none'
      readonly ports: undefined
      readonly atMostOnce: boolean
      readonly isManual: boolean
    }

export interface LocalHandlerSettings {
  readonly handler: (...args: never[]) => unknown
  /** Whether the handler runs without a transaction. */
  readonly isAtLeastOnce: boolean
}

/** The options of a consumer, checked and complete. */
export interface ConsumerSettings {
  readonly source: Source
  readonly name: string
  readonly concurrency: number
  readonly prefetch: number
  readonly inOrder: boolean
  readonly retry: RetryPolicy
  readonly localRetries: number
  readonly localDelayMs: number
  readonly holdMs: number
  readonly handleTimeoutMs: number
  readonly deadLetters: { readonly publisher: Publisher; readonly topic: string } | undefined
  readonly dedup: readonly DedupStore[]
  /** If undefined, each store uses its own retention. */
  readonly retentionMs: number | undefined
  readonly keyOf: KeyExtractor<InboxMessage>
  /** Returns the text of the key, or throws if the message has no usable key. */
  readonly keyTextOf: (message: InboxMessage) => string
  readonly work: WorkSettings
  readonly handler: (...args: never[]) => unknown
  readonly batch: { readonly maxSize: number; readonly lingerMs: number } | undefined
  readonly log: ConsumerLog
  readonly telemetry: FindTelemetry
  readonly spanParent: SpanParent
  readonly signal: AbortSignal | undefined
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function checkConsumerOptions(options: object): ConsumerSettings {
  const check = new OptionChecker('createConsumer', options).known(...OPTIONS)
  const source = sourceOption(check, propertyOf(options, 'source'))
  const work = workOption(check, options, source)
  const name = nameOption(check, work)
  const handler = check.callback<ConsumerSettings['handler']>('handler')
  if (handler === undefined) throw check.wrong('handler', 'a function')
  const batch = batchOption(check.where, propertyOf(options, 'batch'))
  const concurrency = concurrencyOption(check, batch === undefined ? MAX_CONCURRENCY : MAX_BATCHES, 10)
  const least = concurrency * (batch?.maxSize ?? 1)
  const keyOf = check.callback<KeyExtractor<InboxMessage>>('key') ?? messageId()
  return {
    source,
    name,
    work,
    handler,
    batch,
    concurrency,
    prefetch: check.integer('prefetch', {
      min: Math.min(least, MAX_PREFETCH),
      max: MAX_PREFETCH,
      default: Math.min(MAX_PREFETCH, source.traits.leaseMs === undefined ? least * 2 : least),
    }),
    inOrder: check.oneOf('order', ['per-key', 'none'], 'per-key') === 'per-key',
    retry: retryOption(check, propertyOf(options, 'retry'), source),
    localRetries: check.integer('localRetries', { min: 0, max: 1000, default: 10 }),
    localDelayMs: check.milliseconds('localDelayMs', { min: 0, max: 60_000, default: 50 }),
    holdMs: check.milliseconds('holdMs', { min: 0, max: 900_000, default: 30_000 }),
    handleTimeoutMs: timeoutOption(check, propertyOf(options, 'handleTimeoutMs')),
    deadLetters: deadLettersOption(check, options, { source, work, name }),
    dedup: dedupOption(check, propertyOf(options, 'dedup'), work),
    retentionMs: retentionOption(check, propertyOf(options, 'retentionMs')),
    keyOf,
    keyTextOf(message) {
      const text = work.kind === 'inbox' ? work.inbox.keyTextOf?.(message) : undefined
      return text ?? inboxKey(keyOf(message), name).text
    },
    log: consumerLog(name, loggerOption(check, propertyOf(options, 'logger') as never)),
    telemetry: telemetryOption(check, propertyOf(options, 'telemetry') as never),
    spanParent: spanParentOption(check),
    signal: check.signal('signal'),
  }
}

/** Without `byDefault`, the option is required. */
export function concurrencyOption(check: OptionChecker, max: number, byDefault = Number.NaN): number {
  return check.integer('concurrency', { min: 1, max, default: byDefault })
}

function sourceOption(check: OptionChecker, source: unknown): Source {
  const traits = propertyOf(source, 'traits')
  if (typeof propertyOf(source, 'open') !== 'function' || typeof traits !== 'object' || traits === null) {
    throw check.wrong('source', 'a source, such as the result of rabbitmqSource() or queueSource(queue)')
  }
  return source as Source
}

function workOption(check: OptionChecker, options: object, source: Source): WorkSettings {
  const inbox = propertyOf(options, 'inbox')
  const database = propertyOf(options, 'database')
  const delivery = check.oneOf('delivery', ['at-least-once', 'at-most-once'], 'at-least-once')
  const isManual = check.oneOf('acknowledge', ['auto', 'manual'], 'auto') === 'manual'
  const guard = check.callback<Guard<unknown>>('guard')
  if (inbox === undefined && database === undefined) {
    if (guard !== undefined) throw check.wrong('guard', 'absent without an inbox or a database')
    if (isManual && delivery === 'at-most-once') throw check.wrong('acknowledge', "'auto' at most once")
    return { kind: 'none', ports: undefined, atMostOnce: delivery === 'at-most-once', isManual }
  }
  if (delivery === 'at-most-once') throw check.wrong('delivery', 'absent with an inbox or a database')
  if (isManual) {
    throw check.wrong('acknowledge', "'auto' with an inbox or a database, whose COMMIT decides")
  }
  if (inbox !== undefined) {
    if (database !== undefined) throw check.wrong('database', 'absent with an inbox, which has its own')
    if (
      typeof propertyOf(inbox, 'run') !== 'function' ||
      typeof propertyOf(inbox, 'runBatch') !== 'function'
    ) {
      throw check.wrong('inbox', 'the result of createInbox() for a database with a db')
    }
    const ports = propertyOf(inbox, portsKey) as ConnectedPorts | undefined
    return { kind: 'inbox', inbox: inbox as RunsMessages<unknown>, ports, guard }
  }
  const ports = connectedPortsOf(check.where, database)
  if (!source.traits.settlesInTransaction) {
    throw new InvalidOptionError(
      `${check.where}: the source '${source.name}' cannot settle a delivery in a transaction. Pass the option 'inbox' instead of ` +
        "'database', so that a redelivered message has no second effect.",
    )
  }
  return { kind: 'database', ports, guard }
}

function nameOption(check: OptionChecker, work: WorkSettings): string {
  const max = LIMITS.consumerCharacters
  return check.text('name', work.kind === 'inbox' ? { max, default: work.inbox.consumer } : { max })
}

export function batchOption(where: string, batch: unknown): ConsumerSettings['batch'] {
  if (batch === undefined) return undefined
  const check = new OptionChecker(`${where}, option 'batch'`, batch as object).known('maxSize', 'lingerMs')
  return { maxSize: maxSizeOption(check, LIMITS.batchMessages), lingerMs: lingerOption(check, 0) }
}

function retryOption(check: OptionChecker, retry: unknown, { name, traits }: Source): RetryPolicy {
  const most = traits.maxDeliveries ?? 1000
  if (retry === undefined) {
    return exponentialBackoff(traits.maxDeliveries === undefined ? {} : { attempts: most })
  }
  const attempts = propertyOf(retry, 'attempts')
  if (typeof propertyOf(retry, 'delayMs') !== 'function' || !Number.isSafeInteger(attempts)) {
    throw check.wrong('retry', 'a retry policy, such as the result of exponentialBackoff()')
  }
  if ((attempts as number) < 1 || (attempts as number) > most) {
    throw new InvalidOptionError(
      `${check.where}: the option 'retry' must have 1 to ${most} attempts with the source '${name}', not ${String(attempts)}.`,
    )
  }
  return retry as RetryPolicy
}

function timeoutOption(check: OptionChecker, timeoutMs: unknown): number {
  if (timeoutMs === Infinity) return Infinity
  return check.milliseconds('handleTimeoutMs', { min: 100, max: hours(24), default: 300_000 })
}

function deadLettersOption(
  check: OptionChecker,
  options: object,
  { source, work, name }: { source: Source; work: WorkSettings; name: string },
): ConsumerSettings['deadLetters'] {
  const publisher = propertyOf(options, 'deadLetters')
  const topic = check.text('deadLetterTopic', {
    max: LIMITS.topicCharacters,
    default: `${name}.dead-letters`,
  })
  if (publisher === undefined) {
    if (source.traits.keepsRejected || (work.kind === 'none' && work.atMostOnce)) return undefined
    throw new InvalidOptionError(
      `${check.where}: the source '${source.name}' does not keep messages that are rejected. Pass a publisher as the option ` +
        "'deadLetters', or set up the source to keep them: rabbitmqSource by 'declare.deadLetterExchange', or by 'keepsRejected: true' " +
        'if an argument or a policy of the queue has a dead letter exchange.',
    )
  }
  if (typeof propertyOf(publisher, 'publish') !== 'function') throw check.wrong('deadLetters', 'a publisher')
  return { publisher: publisher as Publisher, topic }
}

function retentionOption(check: OptionChecker, retentionMs: unknown): number | undefined {
  if (retentionMs === undefined) return undefined
  return check.milliseconds('retentionMs', { min: 1000, max: LIMITS.durationMs, default: days(1) })
}

function dedupOption(check: OptionChecker, dedup: unknown, work: WorkSettings): readonly DedupStore[] {
  const stores: unknown[] = dedup === undefined ? [] : Array.isArray(dedup) ? dedup : [dedup]
  if (!stores.every((store) => typeof propertyOf(store, 'complete') === 'function')) {
    throw check.wrong('dedup', 'a dedup store or a list of them')
  }
  if (work.kind !== 'inbox' && stores.some((store) => propertyOf(store, 'onUnavailable') === 'process')) {
    throw check.wrong('dedup', "without a store whose onUnavailable is 'process', unless there is an inbox")
  }
  return stores as DedupStore[]
}
