import { stoppedBy } from '@txbox/core/internal'
import { LocalConsumerLife } from './local-consumer-life.ts'
import { localSource } from './local/local-source.ts'
import type {
  LocalBatchConsumerOptions,
  LocalConsumer,
  LocalConsumerOptions,
} from './options/local-options.ts'
import { checkLocalOptions } from './options/local-settings.ts'

/**
 * Creates a local consumer: it handles the messages that an outbox in the same database stores for it, without a broker. A handler
 * runs in a transaction, with which its message is removed: effect once, whatever expires, pauses or fails over. A handler that
 * `atLeastOnce` has marked runs without a transaction. Messages of one key are handled one at a time, in the order in which they
 * were published; a message that fails is tried again, and becomes a dead letter in the end.
 *
 * ```ts
 * const billing = createLocalConsumer({
 *   database: postgres({ db: pool }),
 *   consumer: 'billing',
 *   handlers: {
 *     'order.placed': async (tx, { payload }: LocalInboxMessage<{ id: string }>) => {
 *       await tx.query('insert into invoices (order_id) values ($1)', [payload.id])
 *     },
 *   },
 * })
 * await billing.start()
 * ```
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createLocalConsumer<Tx, Payloads>(options: LocalConsumerOptions<Tx, Payloads>): LocalConsumer
/**
 * Creates a local consumer that handles several messages of a type in one transaction, with which they are removed.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createLocalConsumer<Tx, Payloads>(
  options: LocalBatchConsumerOptions<Tx, Payloads>,
): LocalConsumer
export function createLocalConsumer(options: object): LocalConsumer {
  const settings = checkLocalOptions(options)
  return stoppedBy(settings.signal, new LocalConsumerLife(settings, () => localSource(settings)))
}
