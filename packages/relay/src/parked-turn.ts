import type { BacklogMessage, ParkedSettlement } from '@txbox/core'
import type { HeldShard } from './lease-keeper.ts'
import { waitingKeys, type Refused } from './refusals.ts'
import { NOTHING, conclude, publish, type TurnResult, type TurnTools } from './turn.ts'

/**
 * The parked messages of one shard that are due: refused ones that are tried again, scheduled ones, and those that
 * follow in their keys.
 *
 * @throws {LeaseLostError} when the shard was taken over.
 */
export async function parkedTurn(held: HeldShard, tools: TurnTools): Promise<TurnResult> {
  const { store, events, limits, gate } = tools
  const startedAt = performance.now()
  const batch = await store.readDue(held.lease, held.shard, limits)
  if (batch.length === 0) return NOTHING

  const published = await gate.together(() => publish(batch, held, tools))
  const settle = (): Promise<void> =>
    store.settleParked(held.lease, held.shard, settlementOf(published.accepted, published.refused))
  return conclude(held, published, { parked: 0, settle, startedAt }, events)
}

/** A key goes on after what was accepted or is dead, unless a message of it is tried again. */
export function settlementOf(
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
): ParkedSettlement {
  const waiting = waitingKeys(refused)
  const through = new Map<string, bigint>()
  const gone = [...accepted, ...refused.map(({ message }) => message)]
  for (const { ordered, key, seq } of gone) {
    if (!ordered || key === undefined || waiting.has(key)) continue
    const last = through.get(key)
    if (last === undefined || seq > last) through.set(key, seq)
  }
  return {
    accepted: accepted.map(({ seq }) => seq),
    refused: refused.map(({ refusal }) => refusal),
    released: [...through].map(([key, after]) => ({ key, after })),
  }
}
