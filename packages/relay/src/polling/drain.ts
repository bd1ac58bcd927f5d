import { exponentialBackoff } from '@txbox/core'
import type { Poller, PollerSettings } from './poller.ts'

/** The pauses after queries that failed. A stop waits for them, so they are short. */
const FAILURE_PAUSES = exponentialBackoff({ minMs: 100, maxMs: 1000, attempts: 1000 })

interface DrainSettings extends Pick<PollerSettings, 'leases' | 'lanes' | 'empty' | 'signal' | 'onError'> {
  readonly poller: Poller
  /** The interval of the queries for shards that another relay holds. */
  readonly pollMs: number
}

/**
 * Resolves when each shard has been seen with nothing due since the call: by this relay, or, if another relay holds the
 * shard, by a query.
 */
export async function drain(settings: DrainSettings): Promise<void> {
  const { leases, lanes, poller, empty, pollMs, signal } = settings
  const since = performance.now()
  poller.drainBegan()
  try {
    for (const held of leases.idle()) lanes.add(held)
    for (let failures = 0; !signal.aborted && empty.unseenSince(since).length > 0;) {
      const hasLooked = await lookAtOthers(settings, empty.unseenSince(since))
      failures = hasLooked ? 0 : failures + 1
      const pauseMs = hasLooked ? pollMs : FAILURE_PAUSES.delayMs(failures, Math.random)
      if (empty.unseenSince(since).length > 0) await empty.next(pauseMs)
    }
  } finally {
    poller.drainEnded()
  }
}

/** @returns `false` when the query has failed. */
async function lookAtOthers(
  { leases, poller, onError }: DrainSettings,
  shards: readonly number[],
): Promise<boolean> {
  const others = shards.filter((shard) => !leases.holds(shard))
  if (others.length === 0) return true
  try {
    await poller.look(others)
    return true
  } catch (error) {
    onError(error)
    return false
  }
}
