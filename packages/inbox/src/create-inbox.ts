import {
  InvalidOptionError,
  LIMITS,
  days,
  hours,
  messageId,
  type AnyMessage,
  type ConnectedDatabase,
  type Database,
  type KeyExtractor,
} from '@txbox/core'
import {
  OptionChecker,
  isConnected,
  oneLine,
  portsOf,
  readableDuration,
  spanParentOption,
  telemetryOption,
} from '@txbox/core/internal'
import type { DetachedInbox, DuplicateEvent, Inbox, InboxOptions } from './inbox.ts'
import { InboxSpans } from './inbox-spans.ts'
import { RunningInbox } from './running-inbox.ts'
import { TransactionInbox, type InboxSettings } from './transaction-inbox.ts'

/**
 * Creates the inbox of one consumer. The effect of a message happens once, because the claim is an insert in the same
 * transaction as the effect. If the database has a `db`, the inbox can also open its own transactions: see
 * {@link Inbox.run}.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createInbox<Tx, M extends AnyMessage = AnyMessage>(
  options: InboxOptions<M> & {
    /** The result of `postgres({ db })` or `mysql({ db })`. */
    database: ConnectedDatabase<Tx>
  },
): Inbox<Tx, M>
/**
 * Creates the inbox of one consumer on a database without a `db`. The inbox works only in transactions that the caller has
 * opened. With one type argument, `createInbox<M>`, TypeScript chooses this overload for every database: for `run`, give both,
 * `createInbox<Tx, M>`.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createInbox<M extends AnyMessage = AnyMessage>(
  options: InboxOptions<M> & {
    /** The result of `postgres()` or `mysql()`. */
    database: Database
  },
): DetachedInbox<M>
export function createInbox<M extends AnyMessage>(
  options: InboxOptions<M> & { database: Database },
): DetachedInbox<M> {
  const where = 'createInbox'
  const check = new OptionChecker(where, options).known(
    'database',
    'consumer',
    'key',
    'retentionMs',
    'redeliveryHorizonMs',
    'maxAgeMs',
    'inFlight',
    'lockTimeoutMs',
    'storeResult',
    'onMismatch',
    'onDuplicate',
    'telemetry',
    'parent',
  )
  const ports = portsOf(where, options.database)
  const consumer = check.text('consumer', { max: LIMITS.consumerCharacters })
  if (consumer.startsWith('@')) {
    throw new InvalidOptionError(
      `${where}: the option 'consumer' must not begin with '@': such names are reserved for txbox.`,
    )
  }
  const duration = (
    name: 'maxAgeMs' | 'redeliveryHorizonMs' | 'lockTimeoutMs',
    max: number,
  ): number | undefined =>
    options[name] === undefined ? undefined : check.milliseconds(name, { min: 1, max, default: max })
  const lockTimeoutMs = duration('lockTimeoutMs', hours(1))
  const inFlight = check.oneOf('inFlight', ['wait', 'report'], 'wait')
  const settings: InboxSettings<M> = {
    consumer,
    extractKey: check.callback<KeyExtractor<M>>('key') ?? messageId(),
    retentionMs: check.milliseconds('retentionMs', { min: 1, max: LIMITS.durationMs, default: days(7) }),
    maxAgeMs: duration('maxAgeMs', LIMITS.durationMs),
    claimOptions: { inFlight, lockTimeoutMs },
    storeResult: check.flag('storeResult', false),
    refusesMismatch: check.oneOf('onMismatch', ['duplicate', 'error'], 'duplicate') === 'error',
    onDuplicate: check.callback<(event: DuplicateEvent<M>) => void>('onDuplicate'),
    spans: new InboxSpans(consumer, spanParentOption(check), telemetryOption(check, options.telemetry)),
  }
  warnIfTooShort(settings, duration('redeliveryHorizonMs', LIMITS.durationMs))
  return isConnected(ports)
    ? new RunningInbox<unknown, M>(ports, settings)
    : new TransactionInbox<M>(ports, settings)
}

/** Emits a process warning if a redelivery may arrive after its claim has expired. */
function warnIfTooShort(
  {
    consumer,
    retentionMs,
    maxAgeMs,
  }: Pick<InboxSettings<AnyMessage>, 'consumer' | 'retentionMs' | 'maxAgeMs'>,
  redeliveryHorizonMs: number | undefined,
): void {
  const longest = redeliveryHorizonMs ?? maxAgeMs
  if (longest === undefined || longest <= retentionMs) return
  const [option, comes] =
    redeliveryHorizonMs === undefined
      ? ['maxAgeMs', 'accepts messages as old as']
      : ['redeliveryHorizonMs', 'may get redeliveries after']
  process.emitWarning(
    `createInbox: consumer '${oneLine(consumer)}' forgets a message after ${readableDuration(retentionMs)} (retentionMs), ` +
      `but ${comes} ${readableDuration(longest)} (${option}): a redelivery in between would run the handler again. Raise ` +
      `retentionMs to at least ${longest}.`,
    { type: 'TxboxWarning', code: 'TXBOX_SHORT_RETENTION' },
  )
}
