import type { Telemetry } from '@txbox/core'
import type { BacklogMessage } from '@txbox/core/ports'
import type { Refused } from './refusals.ts'

/** Counts the settled results of messages, and how long accepted ones took since they were stored. */
export function countSettled(
  telemetry: Telemetry,
  {
    accepted,
    refused,
  }: { readonly accepted: readonly BacklogMessage[]; readonly refused: readonly Refused[] },
): void {
  const counts = new Map<string, number>()
  for (const one of refused) {
    const outcome = outcomeOf(one)
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
  }
  if (accepted.length > 0) counts.set('accepted', accepted.length)
  for (const [outcome, count] of counts) telemetry.count('txbox.relay.messages', count, { outcome })
  const now = Date.now()
  for (const { createdAt } of accepted) {
    // The database's clock may be ahead of this one.
    const seconds = Math.max(0, now - createdAt.getTime()) / 1000
    telemetry.record('txbox.relay.latency', seconds, {})
  }
}

function outcomeOf({ message, refusal }: Refused): 'dead_lettered' | 'rejected' | 'uncounted' {
  if (refusal.retryInMs === undefined) return 'dead_lettered'
  return refusal.attempts > message.attempts ? 'rejected' : 'uncounted'
}
