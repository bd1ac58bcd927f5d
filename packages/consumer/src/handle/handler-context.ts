import type { InboxContext, InboxMessage, KeyExtractor } from '@txbox/core'
import { idempotencyKey, inboxKey } from '@txbox/core/internal'
import type { ConsumerContext } from '../options/consumer.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { HandlerCall } from './handler-call.ts'

/** Turns an inbox's context, which is used by this call only, into the context of a consumer. */
export function consumerContext(
  context: InboxContext,
  { deliveries, localRetries }: HeldDelivery,
  signal: AbortSignal,
): ConsumerContext {
  return Object.assign(context, { signal, deliveries, localRetries, ack: ignored })
}

/**
 * The context of a handler without an inbox. Its properties also work in a copy, a proxy, and an object that inherits from it.
 *
 * @param attempt counts the attempts of the transaction.
 * @param ack acknowledges the message.
 * @throws {InvalidMessageError} for a message without a usable key.
 */
export function handlerContext(
  { message, deliveries, localRetries }: HeldDelivery,
  { name, keyOf }: { readonly name: string; readonly keyOf: KeyExtractor<InboxMessage> },
  call: HandlerCall,
  attempt = 1,
  ack: ConsumerContext['ack'] = ignored,
): ConsumerContext {
  const key = inboxKey(keyOf(message), name)
  return {
    consumer: name,
    key: key.text,
    attempt,
    deliveries,
    localRetries,
    ack,
    // The signal and the idempotency key are created lazily, because both are expensive.
    get signal() {
      return call.signal
    },
    get idempotencyKey() {
      return idempotencyKey(name, key)
    },
  }
}

/** An acknowledgement that has no effect, because the handler's promise decides. */
function ignored(): void {}
