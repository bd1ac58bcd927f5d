import type { InboxContext, InboxMessage, KeyExtractor } from '@txbox/core'
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
  return Object.assign(context, { signal, deliveries, localRetries, ack: ignored })
}

/**
 * The context of a handler without an inbox. The signal and the idempotency key are created lazily, because both are expensive.
 * They are own properties, so that a copy of the context has them, too. All contexts share their getters.
 */
export class HandlerContext implements ConsumerContext {
  static readonly #SIGNAL = {
    enumerable: true,
    get(this: HandlerContext): AbortSignal {
      return this.#call.signal
    },
  }
  static readonly #IDEMPOTENCY_KEY = {
    enumerable: true,
    get(this: HandlerContext): string {
      return idempotencyKey(this.consumer, this.#key)
    },
  }

  readonly consumer: string
  readonly key: string
  readonly attempt: number
  readonly deliveries: number
  readonly localRetries: number
  readonly ack: ConsumerContext['ack']
  declare readonly signal: AbortSignal
  declare readonly idempotencyKey: string
  readonly #key: InboxKey
  readonly #call: HandlerCall

  /**
   * @param attempt counts the attempts of the transaction.
   * @param ack acknowledges the message.
   * @throws {InvalidMessageError} for a message without a usable key.
   */
  constructor(
    held: HeldDelivery,
    { name, keyOf }: { readonly name: string; readonly keyOf: KeyExtractor<InboxMessage> },
    call: HandlerCall,
    attempt = 1,
    ack: ConsumerContext['ack'] = ignored,
  ) {
    this.#key = inboxKey(keyOf(held.message), name)
    this.#call = call
    this.consumer = name
    this.key = this.#key.text
    this.attempt = attempt
    this.deliveries = held.deliveries
    this.localRetries = held.localRetries
    this.ack = ack
    Object.defineProperty(this, 'signal', HandlerContext.#SIGNAL)
    Object.defineProperty(this, 'idempotencyKey', HandlerContext.#IDEMPOTENCY_KEY)
  }
}

/** An acknowledgement that has no effect, because the handler's promise decides. */
function ignored(): void {}
