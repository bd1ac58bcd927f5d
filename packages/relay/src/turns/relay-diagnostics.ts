import type { BacklogMessage } from '@txbox/core/ports'
import { diagnose, diagnosed, reasonOf } from '@txbox/core/internal'
import type { Refused } from './refusals.ts'

/** Publishes the settled results of messages on diagnostic channels. */
export function diagnoseSettled(
  shard: number,
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
  durationMs: number,
): void {
  if (accepted.length > 0) {
    diagnose('published', () => ({
      shard,
      messages: accepted.map((message) => ({ ...diagnosed(message), createdAt: message.createdAt })),
      durationMs,
    }))
  }
  for (const { message, refusal, error } of refused) {
    const { attempts, retryInMs } = refusal
    if (retryInMs === undefined) {
      diagnose('dead-lettered', () => ({ ...diagnosed(message), attempts, reason: reasonOf(error) }))
    } else {
      diagnose('parked', () => ({
        ...diagnosed(message),
        attempt: attempts,
        dueAt: new Date(Date.now() + retryInMs),
        reason: reasonOf(error),
      }))
    }
  }
}
