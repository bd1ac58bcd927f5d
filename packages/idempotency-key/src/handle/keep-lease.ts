import type { DedupLeaseStore, DedupOwner } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'

export interface KeptLease {
  readonly leases: DedupLeaseStore
  readonly owner: DedupOwner
  readonly leaseMs: number
  /** By `performance.now()`, before the lease was asked for. */
  readonly heldSince: number
  /** Called once, when the lease may have passed or has another owner. `cause` is the error of the last extension, if it failed. */
  readonly lost: (cause?: unknown) => void
}

/** Extends a lease after each third of it. @returns a function that ends this. */
export function keepLease({ leases, owner, leaseMs, heldSince, lost }: KeptLease): () => void {
  const over = new AbortController()
  let failure: unknown
  let expiry: NodeJS.Timeout | undefined
  const stop = (): void => {
    clearTimeout(expiry)
    over.abort()
  }
  const end = (): void => {
    stop()
    lost(failure)
  }
  // A process that was frozen learns by this timer, without the database, that its lease has passed.
  const trustFrom = (since: number): void => {
    clearTimeout(expiry)
    expiry = setTimeout(end, since + leaseMs - performance.now())
  }
  const extendAtThirds = async (): Promise<void> => {
    for (;;) {
      await pause(leaseMs / 3, over.signal)
      if (over.signal.aborted) return
      const sentAt = performance.now()
      try {
        const isHeld = await leases.extend(owner, leaseMs)
        if (over.signal.aborted) return
        if (!isHeld) return end()
        failure = undefined
        trustFrom(sentAt)
      } catch (error) {
        // The next extension may come before the lease passes.
        failure = error
      }
    }
  }
  trustFrom(heldSince)
  void extendAtThirds()
  return stop
}
