import { InvalidOptionError } from '@txbox/core'
import { nameOf, propertyOf } from '@txbox/core/internal'
import type { ConsumerContext } from './consumer.ts'
import type { LocalInboxMessage } from './local-message.ts'

/** The symbol is registered, so that two installed copies of this package use the same one. */
const handlerKey: unique symbol = Symbol.for('txbox.atLeastOnce') as never

/** A handler that `atLeastOnce` has marked. `M` is a message, or with `batch` a list of messages. */
export interface AtLeastOnce<M> {
  readonly [handlerKey]: (messages: M) => unknown
}

/**
 * Marks a handler of a local consumer that runs without a transaction, because it waits for others: for a mail server, a payment
 * provider, an HTTP API. Its message is removed after the handler has succeeded. If the process dies in between, the handler runs
 * again, with the same `context.idempotencyKey`.
 *
 * ```ts
 * createLocalConsumer({
 *   database,
 *   consumer: 'mailer',
 *   handlers: {
 *     'order.placed': atLeastOnce(async ({ payload }, { idempotencyKey, signal }) => {
 *       await sendMail(payload, { idempotencyKey, signal })
 *     }),
 *   },
 * })
 * ```
 *
 * With `batch`, the handler gets lists; name their type: `atLeastOnce(async (messages: readonly LocalInboxMessage[], contexts) => …)`.
 *
 * @throws {InvalidOptionError} when `handler` is not a function.
 */
export function atLeastOnce<M = LocalInboxMessage>(
  handler: (
    message: M,
    context: M extends readonly unknown[] ? readonly ConsumerContext[] : ConsumerContext,
  ) => unknown,
): AtLeastOnce<M> {
  if (typeof handler !== 'function') {
    throw new InvalidOptionError(`atLeastOnce: expected a function, not ${nameOf(handler)}.`)
  }
  return { [handlerKey]: handler as (messages: M) => unknown }
}

/** Returns the handler that was marked; `undefined` if this is none. */
export function markedHandlerOf(value: unknown): ((...args: never[]) => unknown) | undefined {
  const handler = propertyOf(value, handlerKey)
  return typeof handler === 'function' ? (handler as (...args: never[]) => unknown) : undefined
}
