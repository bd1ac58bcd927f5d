import type { InboxContext, InboxMessage, KeyExtractor } from '@txbox/core'
import { idempotencyKey, inboxKey } from '@txbox/core/internal'
import type { ConsumerContext } from './consumer.ts'
import type { DeliverySlot } from './delivery-slot.ts'

/** Makes an inbox's context, which is of this call alone, that of a consumer. */
export function consumerContext(
  context: InboxContext,
  slot: DeliverySlot,
  signal: AbortSignal,
  ack: ConsumerContext['ack'] = () => undefined,
): ConsumerContext {
  const { deliveries, localRetries } = slot
  return Object.assign(context, { signal, deliveries, localRetries, ack })
}

/** The context of a handler without an inbox. @throws {InvalidMessageError} for a message without a usable key. */
export function plainContext(
  { message }: DeliverySlot,
  { name, keyOf }: { readonly name: string; readonly keyOf: KeyExtractor<InboxMessage> },
  attempt = 1,
): InboxContext {
  const key = inboxKey(keyOf(message), name)
  const signal = NEVER_ABORTED
  const context = { consumer: name, key: key.text, attempt, signal }
  // Computed lazily, because hashing is expensive.
  const lazy = { enumerable: true, get: () => idempotencyKey(name, key) }
  return Object.defineProperty(context, 'idempotencyKey', lazy) as InboxContext
}

/** Replaced by the signal of the call. */
const NEVER_ABORTED = new AbortController().signal
