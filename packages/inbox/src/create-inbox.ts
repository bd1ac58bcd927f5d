import {
  LIMITS,
  days,
  messageId,
  type AnyMessage,
  type ConnectedDatabase,
  type Database,
  type KeyExtractor,
} from '@txbox/core'
import { OptionChecker, isConnected, portsOf } from '@txbox/core/internal'
import type { DetachedInbox, DuplicateEvent, Inbox, InboxOptions } from './inbox.ts'
import { RunningInbox } from './running-inbox.ts'
import { TransactionInbox } from './transaction-inbox.ts'

/**
 * Creates the inbox of one consumer. The effect of a message happens once, because the claim is an insert in the same
 * transaction as the effect. If the database has a `db`, the inbox can also open its own transactions: see
 * {@link Inbox.run}.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createInbox<Tx, M extends AnyMessage = AnyMessage>(
  options: InboxOptions<M> & { database: ConnectedDatabase<Tx> },
): Inbox<Tx, M>
export function createInbox<M extends AnyMessage = AnyMessage>(
  options: InboxOptions<M> & { database: Database },
): DetachedInbox<M>
export function createInbox<M extends AnyMessage>(
  options: InboxOptions<M> & { database: Database },
): DetachedInbox<M> {
  const where = 'createInbox'
  const check = new OptionChecker(where, options)
    .notYet('maxAgeMs', 'lockTimeoutMs')
    .known('database', 'consumer', 'key', 'retentionMs', 'inFlight', 'storeResult', 'onDuplicate')
  if (check.oneOf('inFlight', ['wait', 'report'], 'wait') === 'report') check.notYet('inFlight')
  if (check.flag('storeResult', false)) check.notYet('storeResult')

  const ports = portsOf(where, options.database)
  const settings = {
    consumer: check.text('consumer', { max: LIMITS.consumerCharacters }),
    extractKey: check.callback<KeyExtractor<M>>('key') ?? messageId(),
    retentionMs: check.milliseconds('retentionMs', { min: 1, max: LIMITS.durationMs, default: days(7) }),
    onDuplicate: check.callback<(event: DuplicateEvent<M>) => void>('onDuplicate'),
  }
  return isConnected(ports)
    ? new RunningInbox<unknown, M>(ports, settings)
    : new TransactionInbox<M>(ports, settings)
}
