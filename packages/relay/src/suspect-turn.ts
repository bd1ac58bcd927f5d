import type { BacklogMessage } from '@txbox/core'
import type { HeldShard } from './lease-keeper.ts'
import { settlementOf } from './parked-turn.ts'
import { bury, tell, type Refused } from './refusals.ts'
import { publish, settling, type Published, type TurnTools, type TurnResult } from './turn.ts'

/** So that other shards get their turn, too. */
const MOST_AT_A_TIME = 50

const CRASHED = 'A relay that was publishing it died, or was cut off, before it had an answer.'

/** What is known of a shard whose owner died: one of the messages that it was publishing may have killed it. */
export class Suspects {
  /** All of the outbox that he may have been publishing have been parked. */
  parked = false
  /** How many may still be tried one by one: those that came from the outbox, and as many that were due already. */
  left: number

  constructor(batchSize: number) {
    this.left = 2 * batchSize
  }
}

/**
 * After a crash: what its owner may have been publishing is parked and then tried one message at a time, each counted
 * before it is published, with nothing else under way in this process. So a crash is counted for the message that was
 * being published, and for no neighbour.
 *
 * @throws {LeaseLostError} when the shard was taken over.
 */
export async function suspectTurn(
  held: HeldShard,
  suspects: Suspects,
  tools: TurnTools,
): Promise<TurnResult> {
  const { store, limits, gate, signal } = tools
  if (!suspects.parked) {
    await parkFirstBatch(held, tools)
    suspects.parked = true
  }
  const counts = { published: 0, parked: 0, deadLettered: 0 }
  for (let n = 0; n < MOST_AT_A_TIME && suspects.left > 0; n++) {
    const [message] = await store.readDue(held.lease, held.shard, { ...limits, messages: 1 })
    if (message === undefined) {
      suspects.left = 0
      break
    }
    suspects.left--
    if (signal.aborted || held.leaving || !held.trust.holds()) return { ...counts, empty: false, more: false }
    const { accepted, refused, failed } = await gate.alone(() => tryAlone(message, held, tools))
    const deadLettered = tell(refused, tools.events)
    counts.published += accepted.length
    counts.deadLettered += deadLettered
    counts.parked += refused.length - deadLettered
    if (failed) return { ...counts, empty: false, more: false }
  }
  return { ...counts, empty: false, more: true }
}

/** In their order: the first of each key is due now, the others wait behind it. */
async function parkFirstBatch(held: HeldShard, { store, limits }: TurnTools): Promise<void> {
  const batch = await store.read(held.shard, limits)
  if (batch.length === 0) return
  const seen = new Set<string>()
  const first = batch.filter(({ key, blocked }) => {
    if (blocked || (key !== undefined && seen.has(key))) return false
    if (key !== undefined) seen.add(key)
    return true
  })
  const heads = new Set(first)
  const settlement = {
    accepted: [],
    refused: first.map(({ seq }) => ({ seq, attempts: 0, error: '', retryInMs: 0 })),
    behind: batch.filter((message) => !heads.has(message)).map(({ seq }) => seq),
  }
  await settling(held, store.settle(held.lease, held.shard, settlement))
}

async function tryAlone(message: BacklogMessage, held: HeldShard, tools: TurnTools): Promise<Published> {
  const { store, retry } = tools
  const settle = (accepted: readonly BacklogMessage[], refused: readonly Refused[]): Promise<void> =>
    settling(held, store.settleParked(held.lease, held.shard, settlementOf(accepted, refused)))
  if (message.attempts >= retry.attempts) {
    const refused = [bury(message, CRASHED)]
    await settle([], refused)
    return { accepted: [], refused, failed: false }
  }
  const counted = { seq: message.seq, attempts: message.attempts + 1, error: CRASHED, retryInMs: 0 }
  await settle([], [{ message, error: undefined, refusal: counted }])
  const published = await publish([message], held, tools)
  if (published.accepted.length + published.refused.length > 0) {
    await settle(published.accepted, published.refused)
  } else {
    // Nothing is known of it, but we live: that was no crash.
    const refusal = { ...counted, attempts: message.attempts }
    await settle([], [{ message, error: undefined, refusal }])
  }
  return published
}
