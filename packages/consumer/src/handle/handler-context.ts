import type { InboxContext, InboxMessage, KeyExtractor } from '@txbox/core'
import { idempotencyKey, inboxKey } from '@txbox/core/internal'
import type { ConsumerContext } from '../options/consumer.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import type { HandlerCall } from './handler-call.ts'

/** Turns an inbox's context, which is used by this call only, into the context of a consumer. */
export function consumerContext(
  context: InboxContext,
  { deliveries, localRetries }: DeliverySlot,
  signal: AbortSignal,
): ConsumerContext {
  return Object.assign(context, { signal, deliveries, localRetries, ack: ignored })
}

/**
 * The context of a handler without an inbox. `attempt` counts the attempts of the transaction, from 1, and `ack`
 * acknowledges the message.
 *
 * @throws {InvalidMessageError} for a message without a usable key.
 */
export function handlerContext(
  slot: DeliverySlot,
  { name, keyOf }: { readonly name: string; readonly keyOf: KeyExtractor<InboxMessage> },
  call: HandlerCall,
  { attempt = 1, ack = ignored }: { readonly attempt?: number; readonly ack?: ConsumerContext['ack'] } = {},
): ConsumerContext {
  const { message, deliveries, localRetries } = slot
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
