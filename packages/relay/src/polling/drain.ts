import type { LeaseKeeper } from '../leases/lease-keeper.ts'
import type { TurnLanes } from '../turns/turn-lanes.ts'
import type { EmptyShards } from './empty-shards.ts'
import type { Poller } from './poller.ts'

export interface DrainSettings {
  readonly keeper: LeaseKeeper
  readonly lanes: TurnLanes
  readonly poller: Poller
  readonly empty: EmptyShards
  /** The interval of the queries for shards that another relay holds. */
  readonly pollMs: number
  /** Aborted when the relay stops. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/**
 * Resolves when each shard has been seen with nothing due since the call: by this relay, or, if another relay holds the
 * shard, by a query.
 */
export async function drain(settings: DrainSettings): Promise<void> {
  const { keeper, lanes, poller, empty, pollMs, signal } = settings
  const since = performance.now()
  poller.drainBegan()
  try {
    for (const held of keeper.idle()) lanes.add(held)
    while (!signal.aborted && empty.unseenSince(since).length > 0) {
      await lookAtOthers(settings, empty.unseenSince(since))
      if (empty.unseenSince(since).length > 0) await empty.next(pollMs)
    }
  } finally {
    poller.drainEnded()
  }
}

async function lookAtOthers(
  { keeper, poller, onError }: DrainSettings,
  shards: readonly number[],
): Promise<void> {
  const others = shards.filter((shard) => !keeper.holds(shard))
  if (others.length > 0) await poller.look(others).catch(onError)
}
