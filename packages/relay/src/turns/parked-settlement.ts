import type { BacklogMessage, ParkedSettlement } from '@txbox/core/ports'
import { waitingKeys, type Refused } from './refusals.ts'

/**
 * The results of parked messages. A key continues after accepted and dead messages, unless a message of the key is
 * tried again.
 */
export function parkedSettlement(
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
): ParkedSettlement {
  const waiting = waitingKeys(refused)
  const through = new Map<string, bigint>()
  for (const { ordered, key, seq } of [...accepted, ...refused.map(({ message }) => message)]) {
    if (!ordered || key === undefined || waiting.has(key)) continue
    const last = through.get(key)
    if (last === undefined || seq > last) through.set(key, seq)
  }
  return {
    accepted,
    refused: refused.map(({ refusal }) => refusal),
    released: [...through].map(([key, after]) => ({ key, after })),
  }
}
