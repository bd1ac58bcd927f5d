import { InvalidOptionError, type InboxContext, type InboxMessage, type KeyExtractor } from '@txbox/core'
import { idempotencyKey, inboxKey, type InboxKey } from '@txbox/core/internal'
import type { ConsumerContext } from '../options/consumer.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { HandlerCall } from './handler-call.ts'

/** Turns an inbox's context, which is used by this call only, into the context of a consumer. */
export function consumerContext(
  context: InboxContext,
  { deliveries, localRetries }: HeldDelivery,
  signal: AbortSignal,
): ConsumerContext {
  return Object.assign(context, { signal, deliveries, localRetries, ack: needless })
}

/** The property of a context that holds the values from which its signal and its idempotency key are created. */
const ORIGIN = Symbol('origin')

interface Lazy {
  readonly [ORIGIN]: { readonly name: string; readonly key: InboxKey; readonly call: HandlerCall }
}

/**
 * The properties that are created lazily, because both are expensive. All contexts share these two functions: getters in an object
 * literal give each object a hidden class of its own, which keeps the message in memory until the next full garbage collection.
 * With a source in memory, 1.3 KB a message outlive a minor collection instead of 2.2 KB (Node.js 24).
 */
const LAZY: PropertyDescriptorMap & ThisType<Lazy> = {
  signal: {
    enumerable: true,
    configurable: true,
    get() {
      return this[ORIGIN].call.signal
    },
  },
  idempotencyKey: {
    enumerable: true,
    configurable: true,
    get() {
      const { name, key } = this[ORIGIN]
      return idempotencyKey(name, key)
    },
  },
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
  ack: ConsumerContext['ack'] = needless,
): ConsumerContext {
  const key = inboxKey(keyOf(message), name)
  const context = { consumer: name, key: key.text, attempt, deliveries, localRetries, ack }
  Object.defineProperty(context, ORIGIN, { value: { name, key, call } })
  return Object.defineProperties(context, LAZY) as ConsumerContext
}

/**
 * The acknowledgement where the handler's promise decides.
 *
 * @throws {InvalidOptionError} at every call: the caller believes that the acknowledgement decides.
 */
function needless(): never {
  throw new InvalidOptionError(
    "context.ack settles a message only with the option acknowledge: 'manual', and in batches that are handled at least once. " +
      'Here the promise of the handler settles it: return when the message is handled, and throw when it has failed.',
  )
}
