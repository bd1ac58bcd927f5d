import type { OutboxMessage, PublishResult } from '@txbox/core'
import { failure as rejection } from '../../../packages/testing/src/cases/failure.ts'
import { outboxMessage } from '../../../packages/testing/src/publisher/sent-messages.ts'

export { outboxMessage, publish, summary } from '../../../packages/testing/src/publisher/sent-messages.ts'

export function outboxMessages(topic: string, count: number): OutboxMessage[] {
  return Array.from({ length: count }, () => outboxMessage({ topic }))
}

/** A signal that is never aborted. */
export function signal(): AbortSignal {
  return new AbortController().signal
}

/** The reason of a rejection. */
export function reason(result: PublishResult | undefined): string {
  return result?.status === 'rejected' && result.error instanceof Error ? result.error.message : ''
}

/** The error of a promise that must reject with an `Error`. */
export async function failure(promise: Promise<unknown>): Promise<Error> {
  const error = await rejection(promise)
  if (!(error instanceof Error)) throw new TypeError(`Expected an Error, not ${typeof error}.`)
  return error
}
