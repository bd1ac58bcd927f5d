import { SHARDS, type ReadLimits } from '@txbox/core'
import type { HeldShard } from './lease-keeper.ts'
import { waitingKeys } from './refusals.ts'
import { NOTHING, conclude, publish, type TurnResult, type TurnTools } from './turn.ts'

/** The end of a shorter batch is over soon. */
const LONG = 500

/**
 * One batch of one shard, from the outbox to the broker: read, publish, delete what was accepted. What was refused is
 * parked, and with it what follows in its key. No transaction is open while the publisher works.
 *
 * @param first of this shard since it is ours.
 * @throws {LeaseLostError} when the shard was taken over: what was accepted will be published again, with the same ids.
 */
export async function shardTurn(held: HeldShard, tools: TurnTools, first: boolean): Promise<TurnResult> {
  const { store, events, limits, gate } = tools
  const startedAt = performance.now()
  const batch = await store.read(held.shard, first ? firstOf(limits, held.shard) : limits)
  if (batch.length === 0) return NOTHING

  const free = batch.filter(({ blocked }) => !blocked)
  const published = await gate.together(() => publish(free, held, tools))
  const { accepted, refused } = published
  const waiting = waitingKeys(refused)
  const gone =
    waiting.size === 0 ? undefined : new Set([...accepted, ...refused.map(({ message }) => message)])
  const behind =
    gone === undefined && free.length === batch.length
      ? []
      : batch.filter((message) => message.blocked || (waiting.has(message.key) && !gone!.has(message)))

  const settle = (): Promise<void> =>
    store.settle(held.lease, held.shard, {
      accepted,
      refused: refused.map(({ refusal }) => refusal),
      behind: behind.map(({ seq }) => seq),
    })
  return conclude(held, published, { parked: behind.length, settle, startedAt }, events)
}

/**
 * A publisher that keeps the order of a key has ever less to do towards the end of a batch. Shards that all begin at the
 * same time begin with batches of different sizes, or they would all come to their ends at the same time as well.
 */
function firstOf({ messages, bytes }: ReadLimits, shard: number): ReadLimits {
  if (messages < LONG) return { messages, bytes }
  return { messages: Math.ceil((messages / 2) * (1 + (shard + 1) / SHARDS)), bytes }
}
