import type { RetryPolicy } from '@txbox/core'
import type { ReadLimits, RelayStore } from '@txbox/core/ports'
import type { EmptyShards } from '../polling/empty-shards.ts'
import type { Poller, ShardLanes } from '../polling/poller.ts'
import type { CallTools } from './in-flight-batch.ts'
import type { PublisherOutage } from './publisher-outage.ts'

/** The parts that all shards of a relay share. */
export interface TurnTools extends CallTools {
  readonly store: RelayStore
  readonly retry: RetryPolicy
  readonly outage: PublisherOutage
  readonly lanes: ShardLanes
  readonly limits: ReadLimits
  readonly poller: Poller
  readonly empty: EmptyShards
  /** Parked messages are read at least this often, no matter how many messages the outbox has. */
  readonly lookAfterMs: number
  readonly healAfterMs: number
}
