/**
 * Two clocks, because each fails in its own way: the wall clock may be set, and the monotonic clock stands still during
 * sleep.
 */
export interface Clock {
  monotonicMs(): number
  wallMs(): number
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
}

/** Says whether this relay may still act as the owner of a lease. */
export interface Trust {
  holds(): boolean
}

/** The relay stops trusting a lease this part of its length early: the lease may end earlier in the database. */
const MARGIN = 0.1

/**
 * Trust in a lease is counted from the moment when its renewal was *begun*, since the database counts from a later
 * moment, and ends when the first of the two clocks reaches the end.
 */
export function trustFrom(clock: Clock, leaseMs: number): Trust {
  const trustedMs = leaseMs * (1 - MARGIN)
  const monotonicEnd = clock.monotonicMs() + trustedMs
  const wallEnd = clock.wallMs() + trustedMs
  return { holds: () => clock.monotonicMs() < monotonicEnd && clock.wallMs() < wallEnd }
}
