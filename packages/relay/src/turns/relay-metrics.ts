import type { Attributes, Publisher, Telemetry } from '@txbox/core'
import type { BacklogMessage } from '@txbox/core/ports'
import { ATTRIBUTES, errorTypeOf } from '@txbox/core/internal'
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

/** Records one call of the publisher. */
export function recordCall(
  telemetry: Telemetry,
  publisher: Publisher,
  call: { readonly beganAt: number; readonly accepted: number; readonly error: unknown },
): void {
  const { system } = publisher
  const attributes: Attributes = {
    ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
    [ATTRIBUTES.operationName]: 'send',
  }
  const failed =
    call.error === undefined ? attributes : { ...attributes, [ATTRIBUTES.errorType]: errorTypeOf(call.error) }
  telemetry.record('messaging.client.operation.duration', (performance.now() - call.beganAt) / 1000, failed)
  if (call.accepted > 0) telemetry.count('messaging.client.sent.messages', call.accepted, attributes)
}
