import type { InboxContext, InboxMessage, KeyExtractor } from '@txbox/core'
import { idempotencyKey, inboxKey } from '@txbox/core/internal'
import type { ConsumerContext } from './consumer.ts'
import type { DeliverySlot } from './delivery-slot.ts'
import type { HandlerCall } from './handler-call.ts'

/** Turns an inbox's context, which is used by this call only, into the context of a consumer. */
export function consumerContext(
  context: InboxContext,
  slot: DeliverySlot,
  signal: AbortSignal,
  ack: ConsumerContext['ack'] = () => undefined,
): ConsumerContext {
  const { deliveries, localRetries } = slot
  return Object.assign(context, { signal, deliveries, localRetries, ack })
}

/** The context of a handler without a transaction. */
export function handlerContext(
  slot: DeliverySlot,
  settings: { readonly name: string; readonly keyOf: KeyExtractor<InboxMessage> },
  call: HandlerCall,
  ack: ConsumerContext['ack'],
): ConsumerContext {
  const { name, keyOf } = settings
  const { message, deliveries, localRetries } = slot
  const key = inboxKey(keyOf(message), name)
  return {
    consumer: name,
    key: key.text,
    attempt: 1,
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

/** The context of a handler without an inbox, for {@link consumerContext}. @throws {InvalidMessageError} for a message without a usable key. */
export function plainContext(
  { message }: DeliverySlot,
  { name, keyOf }: { readonly name: string; readonly keyOf: KeyExtractor<InboxMessage> },
  attempt = 1,
): InboxContext {
  const key = inboxKey(keyOf(message), name)
  return {
    consumer: name,
    key: key.text,
    attempt,
    signal: NEVER_ABORTED,
    // Computed lazily, because hashing is expensive.
    get idempotencyKey() {
      return idempotencyKey(name, key)
    },
  }
}

/** The signal of a plain context, which `consumerContext` replaces by the signal of the call. */
const NEVER_ABORTED = new AbortController().signal
