import { propertyOf } from '@txbox/core/internal'
import type { HandledOutcome } from '../options/consumer.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { HandlerCall } from './handler-call.ts'

/**
 * The result of the work on a message. `'in-flight'`: another delivery of the message is being handled. `'skipped'`: the message of
 * a local consumer could not be locked, and the handler was not called for it.
 */
export interface WorkResult {
  readonly outcome: HandledOutcome | 'in-flight' | 'skipped'
  /** The time that the handler reported. @default the time of the call */
  readonly elapsedMs?: number | undefined
}

export type Handler = (...args: readonly unknown[]) => unknown

/** Calls the handler, and makes its effect durable. A promise that rejects means that there is no effect. */
export interface Work {
  alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult>
  /** Handles several messages in one call of the handler. @returns a promise for each message. */
  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[]
  /** Whether messages that failed together are handled again one by one, because one message can make all of them fail. */
  readonly isAllOrNothing: boolean
}

/** The result of a handler whose message no longer applied. */
export const STALE = { status: 'stale' } as const

/** Reads `'stale'` and `'already'` from the handler's result, as applyVersion and transition return them. */
export function resultOf(result: unknown): WorkResult {
  const status = propertyOf(result, 'status')
  return { outcome: status === 'stale' || status === 'already' ? status : 'processed' }
}
