/**
 * Two clocks, because each fails in its own way: the wall clock may be set, and the monotonic clock stops while the
 * machine sleeps.
 */
export interface Clock {
  monotonicMs(): number
  wallMs(): number
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
}

/** Tells whether this relay may still act as the owner of a lease. */
export interface Trust {
  holds(): boolean
}

/**
 * The last part of a lease, in which the relay no longer trusts the lease, because it may already have expired in the
 * database.
 */
const MARGIN = 0.1

/**
 * Returns the trust in a lease. The time counts from the *beginning* of the renewal (the database counts from a later
 * moment), by whichever clock is further ahead.
 */
export function trustFrom(clock: Clock, leaseMs: number): Trust {
  const trustedMs = leaseMs * (1 - MARGIN)
  const monotonicEnd = clock.monotonicMs() + trustedMs
  const wallEnd = clock.wallMs() + trustedMs
  return { holds: () => clock.monotonicMs() < monotonicEnd && clock.wallMs() < wallEnd }
}
