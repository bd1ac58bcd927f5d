import {
  isTxboxError,
  type BacklogMessage,
  type EventListeners,
  type OutboxMessage,
  type Publisher,
  type RelayStore,
  type RetryPolicy,
} from '@txbox/core'
import type { HeldShard } from './lease-keeper.ts'
import { publishInOrder, type BatchResult } from './publish-in-order.ts'
import type { PublisherOutage } from './publisher-outage.ts'
import type { PublishingGate } from './publishing-gate.ts'
import { bury, refuse, tell, type Refused } from './refusals.ts'
import type { RelayEvents } from './relay.ts'
import { RelayedMessage } from './relayed-message.ts'

/** What a turn works with. */
export interface TurnTools {
  readonly store: RelayStore
  readonly publisher: Publisher
  readonly retry: RetryPolicy
  readonly outage: PublisherOutage
  readonly gate: PublishingGate
  readonly events: EventListeners<RelayEvents>
  readonly limits: { readonly messages: number; readonly bytes: number }
  /** Aborted when the publisher has to stop now. */
  readonly signal: AbortSignal
}

/** What a turn came to. */
export interface TurnResult {
  readonly published: number
  readonly parked: number
  readonly deadLettered: number
  /** Nothing was there that could go. */
  readonly empty: boolean
  /** There may be more to do at once. */
  readonly more: boolean
}

export const NOTHING: TurnResult = { published: 0, parked: 0, deadLettered: 0, empty: true, more: false }

/** What is known of a batch when its publishing has ended. */
export interface Published {
  readonly accepted: readonly BacklogMessage[]
  readonly refused: readonly Refused[]
  readonly failed: boolean
}

/** Publishes a batch, outside any transaction. What cannot be read is refused for good. */
export async function publish(
  batch: readonly BacklogMessage[],
  held: HeldShard,
  tools: TurnTools,
): Promise<Published> {
  const { publisher, retry, signal } = tools
  const startedAt = performance.now()
  const unreadable = batch.filter(({ undecodable }) => undecodable !== undefined)
  const result = await publishInOrder(
    publisher,
    unreadable.length === 0 ? batch : batch.filter(({ undecodable }) => undecodable === undefined),
    (message): OutboxMessage => new RelayedMessage(message),
    () => held.trust.holds() && !signal.aborted,
    signal,
  )
  noteOutage(result, startedAt, tools)
  return {
    accepted: result.accepted,
    refused: [
      ...unreadable.map((message) => bury(message, message.undecodable!)),
      ...result.rejected.map(({ message, result: rejection }) => refuse(message, rejection, retry)),
    ],
    failed: result.failure !== undefined,
  }
}

/** Settles a turn, and then tells what came of it: before that it may still be forgotten. `parked`: of others than were refused. */
export async function conclude(
  held: HeldShard,
  { accepted, refused, failed }: Published,
  { parked, settle, startedAt }: { parked: number; settle: () => Promise<void>; startedAt: number },
  events: EventListeners<RelayEvents>,
): Promise<TurnResult> {
  const settled = accepted.length + refused.length + parked
  if (settled > 0) await settling(held, settle())
  const deadLettered = tell(refused, events)
  if (accepted.length > 0) {
    const durationMs = performance.now() - startedAt
    events.emit('published', { shard: held.shard, count: accepted.length, durationMs })
  }
  return {
    published: accepted.length,
    parked: refused.length - deadLettered + parked,
    deadLettered,
    empty: false,
    more: !failed && settled > 0,
  }
}

/**
 * A settlement without an answer may have happened, or may still: the shard is given up, so that the database has ended
 * it before the next term begins.
 */
export async function settling(held: HeldShard, settlement: Promise<void>): Promise<void> {
  try {
    await settlement
  } catch (error) {
    if (!isTxboxError(error) || error.code !== 'TXBOX_LEASE_LOST') held.leaving = true
    throw error
  }
}

function noteOutage(result: BatchResult, startedAt: number, { outage, events, signal }: TurnTools): void {
  if (result.failure === undefined) {
    if (result.accepted.length + result.rejected.length > 0) outage.succeeded()
  } else if (!signal.aborted) {
    const retryInMs = outage.failed(startedAt, performance.now())
    if (retryInMs !== undefined) events.emit('unavailable', { error: result.failure.error, retryInMs })
  }
}
