import { setTimeout as pause } from 'node:timers/promises'

/** The progress of the work. */
export interface Counts {
  readonly acknowledged: number
  /** Effects in the receiver's database. */
  readonly effects: number
  /** Events in the receiver's outbox that the relay has not published yet. */
  readonly backlog: number
  /** Events that arrived at the second service, and its effects. */
  readonly arrivals: number
  readonly followed: number
}

const LOOK_EVERY_MS = 200
/** No figure has changed for this long, not even the count of duplicates: all messages in flight have arrived. */
const QUIET_MS = 1000
/** No figure has changed for this long although there is work: something is stuck. */
const STUCK_MS = 30_000

/**
 * Polls the progress until all work is done.
 *
 * @param sent whether all webhooks have been acknowledged, and no further service will be killed
 * @returns whether the second service has caught up; `false` if the progress has stopped before that.
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
