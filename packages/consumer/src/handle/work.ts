import { propertyOf } from '@txbox/core/internal'
import type { HandledOutcome } from '../options/consumer.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import type { HandlerCall } from './handler-call.ts'

/** The result of the work on a message. `'in-flight'`: another delivery of the message is being handled. */
export interface WorkResult {
  readonly outcome: HandledOutcome | 'in-flight'
  /** The time that the handler reported. @default the time of the call */
  readonly elapsedMs?: number | undefined
}

/** Calls the handler, and makes its effect durable. A promise that rejects means that there is no effect. */
export interface Work {
  /** @param returned is called when the handler has returned before the result is known. */
  alone(slot: DeliverySlot, call: HandlerCall, returned: () => void): Promise<WorkResult>
  /** Handles several messages in one call of the handler. @returns a promise for each message. */
  together(
    slots: readonly DeliverySlot[],
    call: HandlerCall,
    returned: () => void,
  ): readonly Promise<WorkResult>[]
  /** Whether messages that failed together are handled again one by one, because one message can make all of them fail. */
  readonly isAllOrNothing: boolean
}

/** The result of a handler whose message no longer applied. */
export const STALE = { status: 'stale' } as const

/** Reads `'stale'` and `'already'` from the handler's result, as applyVersion and transition return them. */
export function outcomeOf(result: unknown): HandledOutcome {
  const status = propertyOf(result, 'status')
  return status === 'stale' || status === 'already' ? status : 'processed'
}
