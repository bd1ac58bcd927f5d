/** Two clocks, because each fails in its own way: the wall clock is set, the monotonic one stands still during sleep. */
export interface Clock {
  monotonicMs(): number
  wallMs(): number
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
}

/** May we still act as the owner? */
export interface Trust {
  holds(): boolean
}

/** The part of a lease at its end in which we no longer trust it: it may have ended in the database before. */
const MARGIN = 0.1

/**
 * Trust in a lease, counted from when its renewal was *begun* (the database counts from a moment after that), and
 * ended by whichever clock says so first.
 */
export function trustFrom(clock: Clock, leaseMs: number): Trust {
  const trustedMs = leaseMs * (1 - MARGIN)
  const monotonicEnd = clock.monotonicMs() + trustedMs
  const wallEnd = clock.wallMs() + trustedMs
  return { holds: () => clock.monotonicMs() < monotonicEnd && clock.wallMs() < wallEnd }
}
