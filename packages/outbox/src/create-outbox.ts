import {
  InvalidMessageError,
  InvalidOptionError,
  LIMITS,
  OptionChecker,
  portsOf,
  type Database,
  type InTransaction,
  type NewMessage,
} from '@txbox/core'
import { encodeMessage } from './encode-message.ts'

/** What `publish` returns for each message. */
export interface StoredId {
  readonly id: string
}

/** `Topics` maps topic → payload, so that a producer's messages are checked. Default: anything. */
export type MessageOf<Topics> = {
  [T in keyof Topics & string]: NewMessage<Topics[T]> & { readonly topic: T }
}[keyof Topics & string]

export interface Outbox<Topics = Record<string, unknown>> {
  /**
   * Stores a message, or a list of them by one statement, in the caller's transaction. Rolled back: it is never
   * published. Committed: the relay publishes it at least once, the messages of one `key` in the order of the calls.
   *
   * Across transactions, change the aggregate first (on a single server, locking it is enough) and publish afterwards: then
   * the messages of its key come out in the order of the changes.
   *
   * At most 10 000 messages, 10 MiB a payload and 64 MiB in all. → the id of each, in the order given.
   *
   * @throws {InvalidMessageError} when one of them cannot be stored; none was.
   * @throws {UnsupportedTransactionError | NotInTransactionError} when `tx` is no open transaction; nothing was written.
   * @throws {SchemaError | DatabaseUnavailableError | TransactionAbortedError | TransactionConflictError}
   */
  publish<H extends object, M extends MessageOf<Topics> | readonly MessageOf<Topics>[]>(
    tx: H & InTransaction<H>,
    message: M,
  ): Promise<M extends readonly unknown[] ? readonly StoredId[] : StoredId>
}

/**
 * An outbox: messages are stored in the same transaction as the change they tell of, and published after it.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createOutbox<Topics = Record<string, unknown>>(options: {
  database: Database
  /**
   * PostgreSQL: wakes relays with `wakeup: 'notify'` when the transaction commits. It takes a lock at COMMIT that all who
   * notify share: at high rates polling is faster. @default false
   */
  notify?: boolean
}): Outbox<Topics> {
  const check = new OptionChecker('createOutbox', options).known('database', 'notify')
  const ports = portsOf('createOutbox', options.database)
  const notify = check.flag('notify', false)
  if (notify && options.database.engine !== 'postgres') {
    throw new InvalidOptionError(
      "createOutbox: the option 'notify' needs PostgreSQL; on other databases relays poll. Leave it out.",
    )
  }

  async function publish(
    tx: object,
    message: NewMessage | readonly NewMessage[],
  ): Promise<StoredId | StoredId[]> {
    const messages: readonly unknown[] = Array.isArray(message) ? message : [message]
    refuseTooMuch(messages.length, 0)
    // Unlike `map`, this does not pass over missing elements.
    const stored = Array.from(messages, (one) => encodeMessage(one as NewMessage))
    refuseTooMuch(
      stored.length,
      stored.reduce((sum, { payload }) => sum + payload.byteLength, 0),
    )
    const session = await ports.bind(tx)
    if (stored.length > 0) await ports.outbox.append(session, stored, { notify })
    const ids = stored.map(({ id }) => ({ id }))
    return Array.isArray(message) ? ids : ids[0]!
  }
  return { publish: publish as Outbox<Topics>['publish'] }
}

function refuseTooMuch(messages: number, bytes: number): void {
  if (messages <= LIMITS.batchMessages && bytes <= LIMITS.batchPayloadBytes) return
  const size = bytes === 0 ? '' : ` of ${bytes} bytes`
  throw new InvalidMessageError(
    `publish: ${messages} messages${size} are too much for one call; at most ${LIMITS.batchMessages} ` +
      `messages and ${LIMITS.batchPayloadBytes} bytes are allowed. Publish them in several calls. Nothing was written.`,
  )
}
