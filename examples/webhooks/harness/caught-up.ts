import { setTimeout as pause } from 'node:timers/promises'

/** How far the work has come. */
export interface Counts {
  readonly acknowledged: number
  /** Effects in the receiver's database. */
  readonly effects: number
  /** Events in its outbox that the relay has not moved yet. */
  readonly backlog: number
  /** Events that came to the second service, and its effects. */
  readonly arrivals: number
  readonly followed: number
}

const LOOK_EVERY_MS = 200
/** Nothing has changed for so long, duplicates neither: what was in flight has arrived. */
const QUIET_MS = 1000
/** Nothing has changed for so long, though there is work: something is stuck. */
const STUCK_MS = 30_000

/**
 * Looks how far the work has come until all of it is done.
 *
 * @param sent have all webhooks been acknowledged, and is the killing over?
 * @returns whether the second service has caught up; `false` when nothing moves any more and it has not.
 */
export async function untilCaughtUp(
  look: () => Promise<Counts>,
  sent: () => boolean,
  show: (counts: Counts) => void,
  signal: AbortSignal,
): Promise<boolean> {
  let last = ''
  let changedAt = performance.now()
  for (;;) {
    const counts = await look()
    signal.throwIfAborted()
    show(counts)
    const now = JSON.stringify(counts)
    if (now !== last) changedAt = performance.now()
    last = now
    const quietMs = performance.now() - changedAt
    const done = sent() && counts.backlog === 0 && counts.followed >= counts.effects
    if (done && quietMs > QUIET_MS) return true
    if (quietMs > STUCK_MS && sent()) return false
    await pause(LOOK_EVERY_MS, undefined, { signal })
  }
}
